// A small pool that splits one range over threads.
//
// The calling thread takes part, so a pool of one thread has no workers and
// never switches threads; small ranges (see `grain`) run inline. Several
// threads may call ParallelFor at once: a call that finds the workers taken
// runs alone on its own thread. Nothing spins except a worker that has just
// finished, for a bounded, short time.
//
// Example:
//   pool.ParallelFor(n, 1 << 15, [&](int64_t begin, int64_t end) { ... });

#ifndef TVARANT_DAEMON_KERNELS_HOST_THREAD_POOL_H_
#define TVARANT_DAEMON_KERNELS_HOST_THREAD_POOL_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"

namespace tvarant::host {

// Thread-safe.
class ThreadPool {
 public:
  // num_threads counts the caller; >= 1. Workers start lazily, on the first
  // range large enough to split.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Calls body(begin, end) on disjoint parts that cover [0, n), each of at
  // least `grain` items but for the last, and returns when all are done.
  void ParallelFor(int64_t n, int64_t grain,
                   absl::FunctionRef<void(int64_t, int64_t)> body);

  int num_threads() const { return num_threads_; }

 private:
  struct State;
  int num_threads_;
  std::unique_ptr<State> state_;
};

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_THREAD_POOL_H_
