#include "daemon/server/progress_board.h"

#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <thread>
#include <vector>

namespace tvarant {
namespace {

class ProgressBoardTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto board = ProgressBoard::Create();
    ASSERT_TRUE(board.ok()) << board.status();
    board_ = *std::move(board);
    // As a client sees it: through its own mapping.
    void* page = ::mmap(nullptr, kSharedPageBytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED, board_->page_fd(), 0);
    ASSERT_NE(page, MAP_FAILED);
    page_ = static_cast<SharedPage*>(page);
  }
  void TearDown() override { ::munmap(page_, kSharedPageBytes); }

  std::unique_ptr<ProgressBoard> board_;
  SharedPage* page_ = nullptr;
};

TEST_F(ProgressBoardTest, ShowsProgressInThePage) {
  EXPECT_EQ(page_->magic, kSharedPageMagic);
  EXPECT_EQ(page_->version, 1u);
  ASSERT_TRUE(board_->Open(5));
  const uint32_t before = page_->streams[5].progress_futex;
  board_->AddError(5);
  board_->Publish(5, 12);
  EXPECT_EQ(page_->streams[5].completed, 12u);
  EXPECT_EQ(page_->streams[5].errors, 1u);
  EXPECT_NE(page_->streams[5].progress_futex, before);
  EXPECT_EQ(page_->streams[4].completed, 0u);
  board_->Close(5);
  ASSERT_TRUE(board_->Open(5));
  EXPECT_EQ(page_->streams[5].completed, 0u);
  EXPECT_EQ(page_->streams[5].errors, 0u);
}

TEST_F(ProgressBoardTest, WhatAClientWritesIsNotBelieved) {
  ASSERT_TRUE(board_->Open(0));
  page_->streams[0].completed = 1000;
  EXPECT_FALSE(board_->IsPassed({0, 1}));
  board_->Publish(0, 1);
  EXPECT_EQ(page_->streams[0].completed, 1u);
  EXPECT_FALSE(board_->IsPassed({0, 2}));
}

TEST_F(ProgressBoardTest, PointsOfStreamsInEachPhase) {
  EXPECT_TRUE(board_->IsPassed({3, 0}));
  EXPECT_FALSE(board_->IsPassed({3, 1}));  // may still come
  ASSERT_TRUE(board_->Open(3));
  EXPECT_FALSE(board_->Open(3));
  board_->Publish(3, 4);
  EXPECT_TRUE(board_->IsPassed({3, 4}));
  EXPECT_FALSE(board_->IsPassed({3, 5}));
  board_->Close(3);
  EXPECT_TRUE(board_->IsPassed({3, 5}));
}

TEST_F(ProgressBoardTest, WaitsForAStreamThatIsNotThereYet) {
  std::atomic<bool> passed{false};
  std::thread waiter([&] { passed = board_->Wait({2, 7}); });
  ASSERT_TRUE(board_->Open(2));
  board_->Publish(2, 6);
  EXPECT_FALSE(passed);
  board_->Publish(2, 7);
  waiter.join();
  EXPECT_TRUE(passed);
}

TEST_F(ProgressBoardTest, TheEndEndsWaits) {
  std::thread waiter([&] { EXPECT_FALSE(board_->Wait({2, 7})); });
  board_->End();
  waiter.join();
  EXPECT_EQ(page_->dead, 1u);
  EXPECT_FALSE(board_->Wait({2, 7}));
  EXPECT_FALSE(board_->Open(1));
}

TEST_F(ProgressBoardTest, RunsWhatWasPutOffOnce) {
  ASSERT_TRUE(board_->Open(0));
  ASSERT_TRUE(board_->Open(1));
  int none = 0, one = 0, both = 0, never = 0;
  board_->WhenPassed({}, [&] { ++none; });
  EXPECT_EQ(none, 1);
  board_->WhenPassed({{0, 2}}, [&] { ++one; });
  board_->WhenPassed({{0, 1}, {1, 1}}, [&] { ++both; });
  board_->WhenPassed({{9, 1}}, [&] { ++never; });
  board_->Publish(0, 1);
  EXPECT_EQ(one + both, 0);
  board_->Publish(0, 2);
  EXPECT_EQ(one, 1);
  EXPECT_EQ(both, 0);
  board_->Close(1);
  EXPECT_EQ(both, 1);
  board_->Publish(0, 3);
  EXPECT_EQ(one, 1);
  board_->End();
  board_->WhenPassed({}, [&] { ++never; });
  EXPECT_EQ(never, 0);
}

// Sleeps on the word as a client does. False if nobody wakes it in time.
bool FutexWait(std::atomic<uint32_t>* word, uint32_t expected,
               int64_t timeout_ms) {
  const timespec timeout{timeout_ms / 1000, timeout_ms % 1000 * 1000000};
  const long result = ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(word),
                                FUTEX_WAIT, expected, &timeout, nullptr, 0);
  return result == 0 || errno != ETIMEDOUT;
}

TEST_F(ProgressBoardTest, WakesAClientThatWaits) {
  ASSERT_TRUE(board_->Open(0));
  StreamSlot& slot = page_->streams[0];
  constexpr uint64_t kRounds = 2000;
  std::atomic<bool> in_time{true};
  std::thread client([&] {
    for (uint64_t target = 1; target <= kRounds; ++target) {
      slot.wake_at = target;
      slot.waiters.fetch_add(1);
      for (;;) {
        const uint32_t seen = slot.progress_futex.load();
        if (slot.completed.load() >= target) break;
        if (!FutexWait(&slot.progress_futex, seen, 5000)) in_time = false;
      }
      slot.waiters.fetch_sub(1);
    }
  });
  for (uint64_t i = 1; i <= kRounds; ++i) board_->Publish(0, i);
  client.join();
  EXPECT_TRUE(in_time);
}

TEST_F(ProgressBoardTest, TheEndWakesClients) {
  ASSERT_TRUE(board_->Open(0));
  StreamSlot& slot = page_->streams[0];
  slot.waiters = 1;
  const uint32_t seen = slot.progress_futex;
  std::thread client(
      [&] { EXPECT_TRUE(FutexWait(&slot.progress_futex, seen, 10000)); });
  board_->End();
  client.join();
}

}  // namespace
}  // namespace tvarant
