#include "proto/base/mutex.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

namespace tvarant::base {
namespace {

class Counter {
 public:
  void Increment() {
    MutexLock lock(mutex_);
    ++value_;
    changed_.NotifyAll();
  }
  void WaitFor(int value) {
    MutexLock lock(mutex_);
    while (value_ < value) changed_.Wait(mutex_);
  }
  bool WaitBriefly() {
    MutexLock lock(mutex_);
    return changed_.WaitFor(mutex_, std::chrono::milliseconds(1));
  }
  int value() {
    MutexLock lock(mutex_);
    return value_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int value_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST(MutexTest, KeepsThreadsApartAndWakesThem) {
  constexpr int kThreads = 4, kSteps = 1000;
  Counter counter;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < kSteps; ++k) counter.Increment();
    });
  }
  counter.WaitFor(kThreads * kSteps);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter.value(), kThreads * kSteps);
}

TEST(MutexTest, WaitForEndsWhenTheTimeIsOver) {
  Counter counter;
  // Ends without cause are allowed, but not for ever.
  while (counter.WaitBriefly()) {
  }
}

bool IsFree(Mutex& mutex) {
  if (!mutex.TryLock()) return false;
  mutex.Unlock();
  return true;
}

TEST(MutexTest, LockCanBeGivenUpEarly) {
  Mutex mutex;
  {
    MutexLock lock(mutex);
    lock.Unlock();
    EXPECT_TRUE(IsFree(mutex));
  }
  EXPECT_TRUE(IsFree(mutex));
}

}  // namespace
}  // namespace tvarant::base
