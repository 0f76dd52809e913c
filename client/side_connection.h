// SideConnection: descriptors from the daemon, and news of its end.
//
// The client's end of proto/wire/side_protocol.h. A thread reads it: memory
// that the daemon passes is kept until the call that asked for it takes it;
// the end of the connection means that the daemon died or ended the session.
//
// Example:
//   auto side = SideConnection::Attach(endpoint, token, deadline);
//   side.value()->Watch([&] { life.Die(...); });
//   side.value()->Expect(handle);
//   ... CreateSegment(handle) ...
//   auto fd = side.value()->Take(handle, life);

#ifndef TVARANT_CLIENT_SIDE_CONNECTION_H_
#define TVARANT_CLIENT_SIDE_CONNECTION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "client/client.h"
#include "client/endpoint.h"
#include "client/lifeline.h"
#include "client/shared_mapping.h"
#include "client/thread.h"
#include "proto/base/mutex.h"
#include "proto/base/unique_fd.h"
#include "proto/wire/shared_page.h"

namespace tvarant::client {

// Thread-safe after Watch().
class SideConnection {
 public:
  // Connects, shows the token and maps the shared page. UNAVAILABLE when the
  // daemon refuses or does not answer in time.
  static Result<std::unique_ptr<SideConnection>> Attach(
      const Endpoint& endpoint, const std::string& token, Deadline deadline);
  ~SideConnection();

  SharedPage* page() const { return static_cast<SharedPage*>(page_.data()); }

  // Starts reading. `on_end` is called at most once, on the reading thread,
  // and not because of the destructor.
  Status Watch(std::function<void()> on_end);

  // Announces that the daemon will pass memory under this handle. What comes
  // unannounced is closed.
  void Expect(uint64_t handle);
  // The descriptor, once; waits for it, since it travels apart from the reply.
  // Ends when the session does.
  Result<base::UniqueFd> Take(uint64_t handle, const Lifeline& life);
  // The call failed; nothing is expected any more.
  void Forget(uint64_t handle);

 private:
  SideConnection() = default;
  void ReadLoop();

  struct Memory {
    bool arrived = false;
    base::UniqueFd fd;
  };

  base::UniqueFd socket_;
  SharedMapping page_;
  Thread thread_;
  std::function<void()> on_end_;
  std::atomic<bool> closing_{false};
  base::Mutex mutex_;
  base::CondVar arrived_;
  std::map<uint64_t, Memory> expected_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tvarant::client

#endif  // TVARANT_CLIENT_SIDE_CONNECTION_H_
