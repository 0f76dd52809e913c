// A small pool that splits one range over threads.
//
// The calling thread takes part, so a pool of one thread has no workers and
// never switches threads; small ranges (see `grain`) run inline. Several
// threads may call ParallelFor at once: a call that finds the workers taken
// runs alone on its own thread. Nothing spins except a worker that has just
// finished, for a bounded, short time.
//
// Nobody wants the result of a launch whose client is gone. The thread that
// runs it says where to see that, with a CancelScope; kernels whose parts do
// not depend on each other then leave out the rest.
//
// Example:
//   pool.ParallelFor(n, 1 << 15, [&](int64_t begin, int64_t end) { ... });

#ifndef TVARANT_DAEMON_KERNELS_HOST_THREAD_POOL_H_
#define TVARANT_DAEMON_KERNELS_HOST_THREAD_POOL_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"

namespace tvarant::host {

// While it lives, this thread's ParallelForOrCancel calls watch *cancelled,
// which must outlive the scope. Null: never cancelled.
class CancelScope {
 public:
  explicit CancelScope(const std::atomic<bool>* cancelled);
  ~CancelScope();
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;

 private:
  const std::atomic<bool>* before_;
};

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
  // As ParallelFor, but leaves out parts once the calling thread's CancelScope
  // says so. What would be written then holds anything: no later part of the
  // kernel may take it for an address or an index.
  void ParallelForOrCancel(int64_t n, int64_t grain,
                           absl::FunctionRef<void(int64_t, int64_t)> body);

  int num_threads() const { return num_threads_; }

 private:
  struct State;
  void Run(int64_t n, int64_t grain, const std::atomic<bool>* cancelled,
           absl::FunctionRef<void(int64_t, int64_t)> body);

  int num_threads_;
  std::unique_ptr<State> state_;
};

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_THREAD_POOL_H_
