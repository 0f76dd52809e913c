#include "client/progress.h"

#include <chrono>
#include <memory>
#include <thread>

#include "client/futex.h"
#include "gtest/gtest.h"

namespace tvarant::client {
namespace {

using std::chrono::steady_clock;

void WaitUntil(Progress& progress, uint64_t sequence) {
  while (progress.completed() < sequence) progress.WaitSlice(sequence, true);
}

TEST(ProgressTest, ByMessages) {
  Progress progress(nullptr, 0);
  EXPECT_FALSE(progress.has_page());
  EXPECT_EQ(progress.completed(), 0u);
  progress.Advance(5);
  progress.Advance(3);  // never back
  EXPECT_EQ(progress.completed(), 5u);
  std::thread reader([&] { progress.Advance(6); });
  WaitUntil(progress, 6);
  reader.join();
}

TEST(ProgressTest, ByPage) {
  auto page = std::make_unique<SharedPage>();
  StreamSlot& slot = page->streams[3];
  Progress progress(page.get(), 3);
  std::thread daemon([&] {
    for (uint64_t i = 1; i <= 200; ++i) {
      slot.completed.store(i);
      slot.progress_futex.fetch_add(1);
      if (slot.waiters.load() != 0 && slot.wake_at.load() <= i) {
        FutexWakeAll(&slot.progress_futex);
      }
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  });
  const auto begin = steady_clock::now();
  std::thread other([&] { WaitUntil(progress, 150); });
  for (uint64_t i = 1; i <= 200; ++i) WaitUntil(progress, i);
  daemon.join();
  other.join();
  EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_EQ(slot.waiters.load(), 0u);
}

TEST(ProgressTest, SliceEndsByItselfAndByWake) {
  auto page = std::make_unique<SharedPage>();
  Progress progress(page.get(), 0);
  auto begin = steady_clock::now();
  progress.WaitSlice(1, false);
  EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(5));
  page->dead = 1;
  begin = steady_clock::now();
  progress.WaitSlice(1, false);
  EXPECT_LT(steady_clock::now() - begin, std::chrono::milliseconds(90));
}

}  // namespace
}  // namespace tvarant::client
