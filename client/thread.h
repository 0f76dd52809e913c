// Thread: a background thread of the library.
//
// It blocks all signals, so that handlers of the application run on its own
// threads, and reports failure to start as a status.

#ifndef TVARANT_CLIENT_THREAD_H_
#define TVARANT_CLIENT_THREAD_H_

#include <pthread.h>

#include <functional>

#include "client/client.h"

namespace tvarant::client {

// Thread-compatible. Must be joined before it is destroyed, if started.
class Thread {
 public:
  Thread() = default;
  ~Thread() { Join(); }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  // Name: at most 15 characters, as the kernel keeps it.
  // RESOURCE_EXHAUSTED when the process may have no more threads.
  Status Start(const char* name, std::function<void()> body);
  void Join();
  bool IsCurrent() const {
    return started_ && ::pthread_equal(thread_, ::pthread_self()) != 0;
  }

 private:
  pthread_t thread_{};
  bool started_ = false;
};

}  // namespace tvarant::client

#endif  // TVARANT_CLIENT_THREAD_H_
