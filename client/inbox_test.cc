#include "client/inbox.h"

#include <memory>
#include <thread>

#include "gtest/gtest.h"

namespace tvarant::client {
namespace {

class InboxTest : public testing::Test {
 protected:
  InboxTest() { page_->streams[0].completed = 0; }

  static v1::Completion Failure(uint64_t sequence, int code,
                                const std::string& op,
                                const std::string& message) {
    v1::Completion completion;
    completion.set_completed_sequence(sequence);
    v1::Failure* failure = completion.add_failures();
    failure->set_sequence(sequence);
    failure->set_code(code);
    failure->set_op(op);
    failure->set_message(message);
    return completion;
  }

  std::unique_ptr<SharedPage> page_ = std::make_unique<SharedPage>();
  Lifeline life_;
  Progress progress_{page_.get(), 0};
  Inbox inbox_{life_, progress_};
};

TEST_F(InboxTest, NothingFailed) { EXPECT_TRUE(inbox_.TakeFailure().ok()); }

TEST_F(InboxTest, FirstFailureOnceThenTheRestOfItIsDropped) {
  page_->streams[0].errors = 2;
  page_->streams[0].completed = 9;
  inbox_.Deliver(Failure(4, 11, "gather", "index 7"));
  inbox_.Deliver(Failure(6, 3, "add", "other"));
  const Status first = inbox_.TakeFailure();
  EXPECT_EQ(first.code(), Code::kOutOfRange);
  EXPECT_EQ(first.message(), "gather: index 7");
  EXPECT_TRUE(inbox_.TakeFailure().ok());
  // Late news of what was queued before the failure was raised.
  page_->streams[0].errors = 3;
  inbox_.Deliver(Failure(8, 3, "add", "other"));
  EXPECT_TRUE(inbox_.TakeFailure().ok());
  // What came after it is raised.
  page_->streams[0].errors = 4;
  page_->streams[0].completed = 12;
  inbox_.Deliver(Failure(12, 3, "mul", "mul: sizes differ"));
  EXPECT_EQ(inbox_.TakeFailure().message(), "mul: sizes differ");
}

TEST_F(InboxTest, WaitsForTheTextThatThePageAnnounces) {
  page_->streams[0].errors = 1;
  page_->streams[0].completed = 5;
  std::thread reader([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    inbox_.Deliver(Failure(5, 99, "", "boom"));
  });
  const Status failure = inbox_.TakeFailure();
  reader.join();
  EXPECT_EQ(failure.code(), Code::kInternal);  // no such code
  EXPECT_EQ(failure.message(), "boom");
}

TEST_F(InboxTest, DeathEndsTheWait) {
  page_->streams[0].errors = 1;
  life_.Die(Status(Code::kUnavailable, "gone"));
  EXPECT_EQ(inbox_.TakeFailure().message(), "gone");
  EXPECT_FALSE(inbox_.WaitOpened(std::chrono::seconds(10)));
}

TEST_F(InboxTest, ReadsArriveFailOrAreRefused) {
  char data[3][4] = {};
  for (uint64_t i = 0; i < 3; ++i) inbox_.ExpectRead(i + 1, data[i], 4);
  v1::Completion completion;
  v1::ReadResult* read = completion.add_reads();
  read->set_sequence(1);
  read->set_data("abcd");
  read = completion.add_reads();
  read->set_sequence(2);
  read->set_data("longer than asked for");
  read = completion.add_reads();
  read->set_sequence(77);  // nobody asked
  read->set_data("wxyz");
  completion.set_completed_sequence(2);
  inbox_.Deliver(completion);
  EXPECT_TRUE(inbox_.WaitRead(1));
  EXPECT_EQ(std::string(data[0], 4), "abcd");
  EXPECT_FALSE(inbox_.WaitRead(2));
  EXPECT_EQ(data[1][0], 0);
  inbox_.Deliver(Failure(3, 3, "download", "bad range"));
  EXPECT_FALSE(inbox_.WaitRead(3));
  EXPECT_FALSE(inbox_.WaitRead(4));
}

TEST_F(InboxTest, ClosingEndsWaits) {
  char data[4];
  inbox_.ExpectRead(1, data, 4);
  inbox_.ExpectMarker(2);
  std::thread closer([&] { inbox_.Close(); });
  EXPECT_FALSE(inbox_.WaitRead(1));
  EXPECT_EQ(inbox_.WaitMarker(2).status().code(), Code::kUnavailable);
  closer.join();
}

TEST_F(InboxTest, MarkerTimes) {
  inbox_.ExpectMarker(5);
  v1::Completion completion;
  v1::MarkerTime* time = completion.add_marker_times();
  time->set_sequence(5);
  time->set_time_ns(1234);
  inbox_.Deliver(completion);
  EXPECT_EQ(inbox_.WaitMarker(5).value(), 1234u);
  EXPECT_EQ(inbox_.WaitMarker(5).value(), 1234u);
  EXPECT_EQ(inbox_.WaitMarker(6).status().code(), Code::kInvalidArgument);
}

TEST_F(InboxTest, MarkersThatWereAskedForAreForgottenFirst) {
  constexpr uint64_t kMany = 200'000;
  inbox_.ExpectMarker(1);
  for (uint64_t i = 2; i <= kMany; ++i) {
    inbox_.ExpectMarker(i);
    v1::Completion completion;
    for (const uint64_t sequence : {uint64_t{1}, i}) {
      v1::MarkerTime* time = completion.add_marker_times();
      time->set_sequence(sequence);
      time->set_time_ns(1000 + sequence);
    }
    inbox_.Deliver(completion);
    ASSERT_EQ(inbox_.WaitMarker(i).value(), 1000 + i);
  }
  EXPECT_EQ(inbox_.WaitMarker(1).value(), 1001u);
  EXPECT_EQ(inbox_.WaitMarker(2).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(inbox_.WaitMarker(kMany).value(), 1000 + kMany);
}

}  // namespace
}  // namespace tvarant::client
