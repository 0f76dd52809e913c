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

#include "daemon/kernels/host/yield_scope.h"

namespace tvarant::host {
namespace {

// A part should not be so small that taking it costs, nor so large that the
// last one keeps everybody waiting.
constexpr int64_t kPartsPerThread = 16;
// The same while others use the device: they wait for a part.
constexpr int64_t kPartsAmongNeighbours = 64;

thread_local const std::atomic<bool>* t_cancelled = nullptr;

bool IsSet(const std::atomic<bool>* flag) {
  return flag != nullptr && flag->load(std::memory_order_relaxed);
}

struct Loop {
  int64_t n;
  int64_t part;
  const std::atomic<bool>* cancelled;  // may be null
  YieldPoint* yield_point;             // may be null
  const absl::FunctionRef<void(int64_t, int64_t)> body;
};

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
    std::atomic<bool> stopped{false};  // the caller lets others in
  };

  explicit State(int num_threads) : threads(num_threads) {}

  const int threads;
  alignas(64) std::atomic<bool> taken{false};
  // Guarded by `taken` for writing; read by workers that are inside.
  Job job;
  alignas(64) std::atomic<uint32_t> inside{0};
  alignas(64) std::atomic<uint32_t> epoch{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> workers;  // guarded by `taken`

  // Each of those at work has a processor, and there is none left for workers.
  // So they share evenly, and no more threads run than there are processors.
  bool MustBeAlone(const YieldPoint* yield_point) const {
    return yield_point != nullptr && yield_point->ProcessorShare(threads) < 2;
  }

  void RunParts(YieldPoint* yield_point) {
    while (!IsSet(job.cancelled) && !IsSet(&job.stopped)) {
      const int64_t begin =
          job.next.fetch_add(job.part, std::memory_order_relaxed);
      if (begin >= job.n) return;
      (*job.body)(begin, std::min(job.n, begin + job.part));
      if (yield_point != nullptr &&
          (yield_point->ShouldYield() || MustBeAlone(yield_point))) {
        job.stopped.store(true, std::memory_order_relaxed);
      }
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
        RunParts(nullptr);
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

  // Runs the parts from `at` on; returns where it stopped.
  int64_t Run(int64_t at, const Loop& loop, int helpers) {
    job.n = loop.n;
    job.part = loop.part;
    job.cancelled = loop.cancelled;
    job.body = &loop.body;
    job.next.store(at, std::memory_order_relaxed);
    job.stopped.store(false, std::memory_order_relaxed);
    inside.store(kOpen, std::memory_order_release);
    epoch.fetch_add(1, std::memory_order_release);
    FutexWake(&epoch, helpers);
    RunParts(loop.yield_point);
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
    // Every part that was taken has been done.
    return std::min(loop.n, job.next.load(std::memory_order_relaxed));
  }

  // Runs parts from `at` on, with workers if they are free, until none is left
  // or others are to be let in; returns where it stopped.
  int64_t RunSome(int64_t at, const Loop& loop, int helpers, int max_workers) {
    if (max_workers > 0 && !MustBeAlone(loop.yield_point) &&
        !taken.exchange(true, std::memory_order_acquire)) {
      if (static_cast<int>(workers.size()) < helpers) Start(max_workers);
      at = Run(at, loop, helpers);
      taken.store(false, std::memory_order_release);
      return at;
    }
    if (loop.cancelled == nullptr && loop.yield_point == nullptr) {
      loop.body(at, loop.n);
      return loop.n;
    }
    while (at < loop.n && !IsSet(loop.cancelled)) {
      const int64_t end = std::min(loop.n, at + loop.part);
      loop.body(at, end);
      at = end;
      if (loop.yield_point == nullptr) continue;
      if (loop.yield_point->ShouldYield()) break;
      // The others have left: with workers from here on.
      if (max_workers > 0 && !MustBeAlone(loop.yield_point) &&
          !taken.load(std::memory_order_relaxed)) {
        break;
      }
    }
    return at;
  }
};

ThreadPool::ThreadPool(int num_threads)
    : num_threads_(std::max(num_threads, 1)),
      state_(std::make_unique<State>(num_threads_)) {}

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
  // A loop inside of a part does not let others in: the outer one goes on.
  const YieldScope inner(nullptr);
  YieldPoint* const yield_point = inner.before();
  const int64_t parts = std::min(
      max_parts,
      num_threads_ * (yield_point != nullptr && yield_point->HasNeighbours()
                          ? kPartsAmongNeighbours
                          : kPartsPerThread));
  // Parts on multiples of 64 keep neighbours out of one cache line.
  int64_t part = n / parts + (n % parts != 0);
  if (grain >= 64) part = (part + 63) / 64 * 64;
  const int helpers =
      static_cast<int>(std::min<int64_t>(num_threads_ - 1, max_parts - 1));
  const Loop loop{n, part, cancelled, yield_point, body};
  int64_t at = 0;
  for (;;) {
    at = state_->RunSome(at, loop, helpers, num_threads_ - 1);
    if (at >= n || IsSet(cancelled)) return;
    // Without the workers, which others may use meanwhile.
    if (loop.yield_point->ShouldYield()) loop.yield_point->Yield();
  }
}

CancelScope::CancelScope(const std::atomic<bool>* cancelled)
    : before_(std::exchange(t_cancelled, cancelled)) {}

CancelScope::~CancelScope() { t_cancelled = before_; }

}  // namespace tvarant::host
