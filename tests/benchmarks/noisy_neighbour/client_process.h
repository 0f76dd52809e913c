// A client of the benchmark in a process of its own: this program once more,
// with --role.

#ifndef TVARANT_TESTS_BENCHMARKS_NOISY_NEIGHBOUR_CLIENT_PROCESS_H_
#define TVARANT_TESTS_BENCHMARKS_NOISY_NEIGHBOUR_CLIENT_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "proto/base/unique_fd.h"
#include "tests/benchmarks/noisy_neighbour/role.h"

namespace tvarant::benchmarks {

class ClientProcess {
 public:
  // Null if it can't be started.
  static std::unique_ptr<ClientProcess> Start(const std::string& role,
                                              const std::string& endpoint,
                                              double seconds);
  // Kills it if it is there.
  ~ClientProcess();

  // Waits until it has warmed up. False if it failed.
  bool WaitReady();
  // Lets it work.
  void Go();
  // Waits for the end; nullopt if it failed.
  std::optional<RoleResult> Wait();

 private:
  ClientProcess() = default;
  pid_t pid_ = -1;
  base::UniqueFd to_, from_;
};

// What the other process does; the exit status.
int RunClient(const std::string& role, const std::string& endpoint,
              double seconds);

}  // namespace tvarant::benchmarks

#endif  // TVARANT_TESTS_BENCHMARKS_NOISY_NEIGHBOUR_CLIENT_PROCESS_H_
