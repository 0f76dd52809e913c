#include "daemon/kernels/host/thread_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace tvarant::host {
namespace {

// A part should not be so small that taking it costs, nor so large that the
// last one keeps everybody waiting.
constexpr int64_t kPartsPerThread = 16;

thread_local const std::atomic<bool>* t_cancelled = nullptr;

bool IsSet(const std::atomic<bool>* flag) {
  return flag != nullptr && flag->load(std::memory_order_relaxed);
}

void FutexWait(std::atomic<uint32_t>* word, uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT_PRIVATE,
          expected, nullptr, nullptr, 0);
}

void FutexWake(std::atomic<uint32_t>* word, int count) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE_PRIVATE,
          count, nullptr, nullptr, 0);
}

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

// One job at a time. The caller publishes it, wakes workers and works itself;
// when no part is left it closes the job, so that a worker which wakes late
// finds nothing to join, and waits only for workers that are in a part.
struct ThreadPool::State {
  // Bit 31: the job is open; the rest: workers inside.
  static constexpr uint32_t kOpen = 1u << 31;

  struct Job {
    int64_t n = 0;
    int64_t part = 0;
    const std::atomic<bool>* cancelled = nullptr;
    const absl::FunctionRef<void(int64_t, int64_t)>* body = nullptr;
    std::atomic<int64_t> next{0};
  };

  alignas(64) std::atomic<bool> taken{false};
  // Guarded by `taken` for writing; read by workers that are inside.
  Job job;
  alignas(64) std::atomic<uint32_t> inside{0};
  alignas(64) std::atomic<uint32_t> epoch{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> workers;  // guarded by `taken`

  void RunParts() {
    while (!IsSet(job.cancelled)) {
      const int64_t begin =
          job.next.fetch_add(job.part, std::memory_order_relaxed);
      if (begin >= job.n) return;
      (*job.body)(begin, std::min(job.n, begin + job.part));
    }
  }

  bool Enter() {
    uint32_t seen = inside.load(std::memory_order_relaxed);
    while (seen & kOpen) {
      if (inside.compare_exchange_weak(seen, seen + 1,
                                       std::memory_order_acquire)) {
        return true;
      }
    }
    return false;
  }

  void Leave() {
    // The caller waits for the word to become 0, after it closed the job.
    if (inside.fetch_sub(1, std::memory_order_release) == 1) {
      FutexWake(&inside, 1);
    }
  }

  void Work() {
    for (;;) {
      const uint32_t seen = epoch.load(std::memory_order_acquire);
      if (stop.load(std::memory_order_acquire)) return;
      if (Enter()) {
        RunParts();
        Leave();
      }
      FutexWait(&epoch, seen);
    }
  }

  // Starts workers up to `count`; fewer if the system has no more threads.
  void Start(int count) {
    // Signals are for the program's own threads.
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (static_cast<int>(workers.size()) < count) {
      try {
        workers.emplace_back([this] { Work(); });
      } catch (const std::system_error&) {
        break;
      }
    }
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
  }

  void Run(int64_t n, int64_t part, int helpers,
           const std::atomic<bool>* cancelled,
           const absl::FunctionRef<void(int64_t, int64_t)>& body) {
    job.n = n;
    job.part = part;
    job.cancelled = cancelled;
    job.body = &body;
    job.next.store(0, std::memory_order_relaxed);
    inside.store(kOpen, std::memory_order_release);
    epoch.fetch_add(1, std::memory_order_release);
    FutexWake(&epoch, helpers);
    RunParts();
    uint32_t left =
        inside.fetch_and(~kOpen, std::memory_order_acquire) & ~kOpen;
    // A worker in its last part is mostly about to end.
    for (int i = 0; left != 0 && i < 1000; ++i) {
      Pause();
      left = inside.load(std::memory_order_acquire);
    }
    while (left != 0) {
      FutexWait(&inside, left);
      left = inside.load(std::memory_order_acquire);
    }
  }
};

ThreadPool::ThreadPool(int num_threads)
    : num_threads_(std::max(num_threads, 1)),
      state_(std::make_unique<State>()) {}

ThreadPool::~ThreadPool() {
  state_->stop.store(true, std::memory_order_release);
  state_->epoch.fetch_add(1, std::memory_order_release);
  FutexWake(&state_->epoch, INT_MAX);
  for (std::thread& worker : state_->workers) worker.join();
}

void ThreadPool::ParallelFor(int64_t n, int64_t grain,
                             absl::FunctionRef<void(int64_t, int64_t)> body) {
  Run(n, grain, nullptr, body);
}

void ThreadPool::ParallelForOrCancel(
    int64_t n, int64_t grain, absl::FunctionRef<void(int64_t, int64_t)> body) {
  Run(n, grain, t_cancelled, body);
}

void ThreadPool::Run(int64_t n, int64_t grain,
                     const std::atomic<bool>* cancelled,
                     absl::FunctionRef<void(int64_t, int64_t)> body) {
  if (n <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  const int64_t max_parts = n / grain;
  if (max_parts < 2) return body(0, n);
  const int64_t parts = std::min(max_parts, num_threads_ * kPartsPerThread);
  // Parts on multiples of 64 keep neighbours out of one cache line.
  int64_t part = n / parts + (n % parts != 0);
  if (grain >= 64) part = (part + 63) / 64 * 64;
  if (num_threads_ == 1 ||
      state_->taken.exchange(true, std::memory_order_acquire)) {
    if (cancelled == nullptr) return body(0, n);
    for (int64_t at = 0; at < n && !IsSet(cancelled); at += part) {
      body(at, std::min(n, at + part));
    }
    return;
  }
  const int helpers =
      static_cast<int>(std::min<int64_t>(num_threads_ - 1, max_parts - 1));
  if (static_cast<int>(state_->workers.size()) < helpers) {
    state_->Start(num_threads_ - 1);
  }
  state_->Run(n, part, helpers, cancelled, body);
  state_->taken.store(false, std::memory_order_release);
}

CancelScope::CancelScope(const std::atomic<bool>* cancelled)
    : before_(std::exchange(t_cancelled, cancelled)) {}

CancelScope::~CancelScope() { t_cancelled = before_; }

}  // namespace tvarant::host
