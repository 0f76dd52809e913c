#include "daemon/kernels/host/thread_pool.h"

#include <atomic>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/kernels/host/yield_scope.h"
#include "gtest/gtest.h"

namespace tvarant::host {
namespace {

void ExpectCoversOnce(ThreadPool& pool, int64_t n, int64_t grain) {
  std::vector<std::atomic<int>> seen(n);
  pool.ParallelFor(n, grain, [&](int64_t begin, int64_t end) {
    ASSERT_LT(begin, end);
    if (end != n && n >= 2 * grain) {
      EXPECT_GE(end - begin, grain);
    }
    for (int64_t i = begin; i < end; ++i) seen[i].fetch_add(1);
  });
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(seen[i].load(), 1) << i;
}

TEST(ThreadPoolTest, CoversEveryRangeOnce) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.num_threads(), threads);
    for (int64_t n : {0, 1, 2, 63, 64, 65, 1000, 4097}) {
      for (int64_t grain : {-1, 0, 1, 7, 64, 100, 5000}) {
        ExpectCoversOnce(pool, n, grain);
      }
    }
  }
}

TEST(ThreadPoolTest, SmallRangesStayOnTheCaller) {
  ThreadPool pool(4);
  const auto caller = std::this_thread::get_id();
  int calls = 0;
  pool.ParallelFor(100, 64, [&](int64_t begin, int64_t end) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(begin, 0);
    EXPECT_EQ(end, 100);
    ++calls;
  });
  EXPECT_EQ(calls, 1);
}

TEST(ThreadPoolTest, NestedCallsRunInline) {
  ThreadPool pool(3);
  std::atomic<int64_t> sum{0};
  pool.ParallelFor(8, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      pool.ParallelFor(
          10, 1, [&](int64_t from, int64_t to) { sum.fetch_add(to - from); });
    }
  });
  EXPECT_EQ(sum.load(), 80);
}

TEST(ThreadPoolTest, ManyCallersAtOnce) {
  ThreadPool pool(3);
  std::vector<std::thread> callers;
  std::atomic<int> failures{0};
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        std::atomic<int64_t> sum{0};
        pool.ParallelFor(1000, 10, [&](int64_t begin, int64_t end) {
          int64_t part = 0;
          for (int64_t i = begin; i < end; ++i) part += i;
          sum.fetch_add(part);
        });
        if (sum.load() != 999 * 1000 / 2) failures.fetch_add(1);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(failures.load(), 0);
}

TEST(ThreadPoolTest, ResultsAreVisibleAfterTheCall) {
  ThreadPool pool(2);
  std::vector<int64_t> values(10000);
  for (int round = 1; round < 300; ++round) {
    pool.ParallelFor(static_cast<int64_t>(values.size()), 100,
                     [&](int64_t begin, int64_t end) {
                       for (int64_t i = begin; i < end; ++i) {
                         values[i] += i;
                       }
                     });
  }
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(values[i], static_cast<int64_t>(i) * 299);
  }
}

// Wants others to be let in after every second part.
class EagerYieldPoint : public YieldPoint {
 public:
  explicit EagerYieldPoint(std::function<void()> on_yield)
      : on_yield_(std::move(on_yield)) {}
  // Asked once more before it yields.
  bool ShouldYield() const override {
    if (++asked_ % 2 == 0) wanted_ = true;
    return wanted_;
  }
  void Yield() override {
    wanted_ = false;
    ++yields_;
    on_yield_();
  }
  int ProcessorShare(int processors) const override {
    return crowded_ ? 1 : processors;
  }
  bool HasNeighbours() const override { return crowded_; }
  void set_crowded(bool crowded) { crowded_ = crowded; }
  int yields() const { return yields_; }

 private:
  const std::function<void()> on_yield_;
  mutable int asked_ = 0;
  mutable bool wanted_ = false;
  std::atomic<bool> crowded_{false};
  int yields_ = 0;
};

TEST(ThreadPoolTest, LetsOthersInBetweenParts) {
  for (const int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    std::atomic<int64_t> inner{0};
    // The others find the workers free, and nothing of ours goes on.
    EagerYieldPoint yield_point([&] {
      pool.ParallelFor(
          1000, 1, [&](int64_t begin, int64_t end) { inner += end - begin; });
    });
    std::vector<std::atomic<int>> seen(4096);
    {
      const YieldScope scope(&yield_point);
      pool.ParallelFor(4096, 1, [&](int64_t begin, int64_t end) {
        // A loop in a part does not ask.
        pool.ParallelFor(end - begin, 1, [&](int64_t from, int64_t to) {
          for (int64_t i = from; i < to; ++i) ++seen[begin + i];
        });
      });
    }
    for (const auto& count : seen) ASSERT_EQ(count, 1);
    EXPECT_GE(yield_point.yields(), 1);
    EXPECT_EQ(inner, 1000 * yield_point.yields());
    const int before = yield_point.yields();
    pool.ParallelFor(4096, 1, [](int64_t, int64_t) {});
    EXPECT_EQ(yield_point.yields(), before);
  }
}

TEST(ThreadPoolTest, WorksAloneWhileOthersHaveTheProcessors) {
  ThreadPool pool(2);
  EagerYieldPoint yield_point([] {});
  const YieldScope scope(&yield_point);
  EXPECT_FALSE(HasNeighbours());
  yield_point.set_crowded(true);
  EXPECT_TRUE(HasNeighbours());
  const auto caller = std::this_thread::get_id();
  std::atomic<int64_t> done{0}, elsewhere{0};
  const auto body = [&](int64_t begin, int64_t end) {
    done += end - begin;
    if (std::this_thread::get_id() != caller) ++elsewhere;
  };
  pool.ParallelFor(4096, 1, body);
  EXPECT_EQ(done, 4096);
  EXPECT_EQ(elsewhere, 0);
  // They leave in the middle of the loop, and come back.
  done = 0;
  int calls = 0;
  pool.ParallelFor(4096, 1, [&](int64_t begin, int64_t end) {
    done += end - begin;
    if (std::this_thread::get_id() == caller) {
      yield_point.set_crowded(++calls % 8 < 4);
    }
  });
  EXPECT_EQ(done, 4096);
}

TEST(ThreadPoolTest, CancelledWorkIsLeftOut) {
  for (const int threads : {1, 2}) {
    ThreadPool pool(threads);
    std::atomic<bool> cancelled{false};
    std::atomic<int64_t> done{0};
    const auto body = [&](int64_t begin, int64_t end) {
      done += end - begin;
      cancelled = true;
    };
    {
      const CancelScope scope(&cancelled);
      pool.ParallelForOrCancel(1 << 20, 1, body);
      EXPECT_GE(done, 1);
      EXPECT_LT(done, 1 << 20);
      // Others don't look at the flag.
      done = 0;
      pool.ParallelFor(1 << 20, 1, body);
      EXPECT_EQ(done, 1 << 20);
    }
    done = 0;
    pool.ParallelForOrCancel(1 << 20, 1, body);
    EXPECT_EQ(done, 1 << 20);
  }
}

}  // namespace
}  // namespace tvarant::host
