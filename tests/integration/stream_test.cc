// Streams: order, events, programs, failures.

#include <string>
#include <thread>
#include <vector>

#include "proto/ops/program.h"
#include "tests/integration/daemon_fixture.h"

namespace tvarant::client {
namespace {

class StreamTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    session_ = Connect();
    ASSERT_NE(session_, nullptr);
    stream_ = Value(session_->CreateStream());
  }

  Vector NewVector(int64_t size) {
    return {Value(session_->CreateSegment(size * 8, nullptr)), size};
  }
  template <typename T>
  void Put(Vector vector, const std::vector<T>& values) {
    ASSERT_TRUE(stream_
                    ->Upload(vector.segment, 0, values.data(),
                             values.size() * sizeof(T))
                    .ok());
  }
  std::vector<float> Get(Stream& stream, Vector vector) {
    std::vector<float> values(vector.size);
    EXPECT_STATUS_OK(
        stream.Download(vector.segment, 0, values.data(), vector.size * 4));
    return values;
  }

  std::shared_ptr<Session> session_;
  std::shared_ptr<Stream> stream_;
};
TVARANT_INSTANTIATE_MODES(StreamTest);

TEST_P(StreamTest, AddsTwoVectors) {
  const Vector a = NewVector(3), b = NewVector(3), sum = NewVector(3);
  Put<float>(a, {1, 2, 3});
  Put<float>(b, {10, 20, 30});
  const uint64_t add = BinaryProgram(*session_, PointwiseOp::kAdd);
  ASSERT_TRUE(LaunchBinary(*stream_, add, sum, a, b).ok());
  EXPECT_EQ(Get(*stream_, sum), (std::vector<float>{11, 22, 33}));
}

TEST_P(StreamTest, ThousandsOfLaunchesRunInOrder) {
  const Vector x = NewVector(4), one = NewVector(4);
  Put<float>(x, {0, 0, 0, 0});
  Put<float>(one, {1, 2, 3, 4});
  const uint64_t add = BinaryProgram(*session_, PointwiseOp::kAdd);
  uint64_t last = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto sequence = LaunchBinary(*stream_, add, x, x, one);
    ASSERT_TRUE(sequence.ok()) << sequence.status().message();
    ASSERT_GT(sequence.value(), last);
    last = sequence.value();
  }
  EXPECT_EQ(stream_->last_sequence(), last);
  EXPECT_STATUS_OK(stream_->Wait(last));
  EXPECT_EQ(stream_->completed_sequence(), last);
  EXPECT_TRUE(stream_->IsDone(last));
  EXPECT_EQ(Get(*stream_, x), (std::vector<float>{20000, 40000, 60000, 80000}));
}

TEST_P(StreamTest, WorkIsSentWithoutBeingWaitedFor) {
  const Vector x = NewVector(4);
  const uint64_t add = BinaryProgram(*session_, PointwiseOp::kAdd);
  const uint64_t sequence = Value(LaunchBinary(*stream_, add, x, x, x));
  // No call below sends anything.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (stream_->completed_sequence() < sequence &&
         std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  EXPECT_GE(stream_->completed_sequence(), sequence);
}

TEST_P(StreamTest, SameProgramSameHandle) {
  const uint64_t add = BinaryProgram(*session_, PointwiseOp::kAdd);
  EXPECT_EQ(BinaryProgram(*session_, PointwiseOp::kAdd), add);
  EXPECT_NE(BinaryProgram(*session_, PointwiseOp::kMul), add);
  Program bad;
  bad.nodes.resize(1);
  bad.nodes[0].op = static_cast<PointwiseOp>(60000);
  bad.stores = {0};
  EXPECT_EQ(session_->DefineProgram(bad).status().code(),
            Code::kInvalidArgument);
}

TEST_P(StreamTest, ProgramsWorkOnEveryStream) {
  const Vector a = NewVector(2), b = NewVector(2);
  Put<float>(a, {3, 4});
  EXPECT_STATUS_OK(stream_->Synchronize());
  const uint64_t mul = BinaryProgram(*session_, PointwiseOp::kMul);
  for (int i = 0; i < 5; ++i) {
    auto other = Value(session_->CreateStream());
    ASSERT_TRUE(LaunchBinary(*other, mul, b, a, a).ok());
    EXPECT_EQ(Get(*other, b), (std::vector<float>{9, 16}));
  }
}

TEST_P(StreamTest, EventsOrderStreams) {
  constexpr int64_t kSize = 1 << 16;
  const Vector x = NewVector(kSize), y = NewVector(kSize);
  const uint64_t add = BinaryProgram(*session_, PointwiseOp::kAdd);
  auto other = Value(session_->CreateStream(/*high_priority=*/true));
  EXPECT_NE(other->id(), stream_->id());
  for (int round = 0; round < 30; ++round) {
    Put(x, std::vector<float>(kSize, 1));
    for (int i = 0; i < 10; ++i) {  // x = 1024
      ASSERT_TRUE(LaunchBinary(*stream_, add, x, x, x).ok());
    }
    const uint64_t event = session_->NewHandle();
    ASSERT_TRUE(stream_->RecordEvent(event).ok());
    ASSERT_TRUE(other->WaitEvent(event).ok());
    ASSERT_TRUE(LaunchBinary(*other, add, y, x, x).ok());
    const uint64_t back = session_->NewHandle();
    ASSERT_TRUE(other->RecordEvent(back).ok());
    ASSERT_TRUE(stream_->WaitEvent(back).ok());
    ASSERT_EQ(Get(*other, y), std::vector<float>(kSize, 2048));
  }
  // An event that nobody recorded holds nobody up.
  ASSERT_TRUE(other->WaitEvent(session_->NewHandle()).ok());
  EXPECT_STATUS_OK(other->Synchronize());
}

TEST_P(StreamTest, MarkersHaveTimes) {
  const uint64_t first = Value(stream_->Marker());
  const Vector x = NewVector(1 << 16);
  const uint64_t add = BinaryProgram(*session_, PointwiseOp::kAdd);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(LaunchBinary(*stream_, add, x, x, x).ok());
  }
  const uint64_t second = Value(stream_->Marker());
  const uint64_t t1 = Value(stream_->MarkerTimeNs(first));
  const uint64_t t2 = Value(stream_->MarkerTimeNs(second));
  EXPECT_LT(t1, t2);
  EXPECT_LT(t2 - t1, 10'000'000'000u);
  EXPECT_EQ(stream_->MarkerTimeNs(first + 1).status().code(),
            Code::kInvalidArgument);
}

TEST_P(StreamTest, FirstFailureIsRaisedOnceAndNamesTheOp) {
  const Vector table = NewVector(4), index = NewVector(2), out = NewVector(2);
  Put<float>(table, {1, 2, 3, 4});
  Put<int64_t>(index, {1, 99});
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(LaunchGather(*stream_, out, table, index).ok());
  }
  const Status failure = stream_->Synchronize();
  EXPECT_EQ(failure.code(), Code::kOutOfRange);
  EXPECT_NE(failure.message().find("index_select"), std::string::npos)
      << failure.message();
  EXPECT_STATUS_OK(stream_->Synchronize());
  // The stream goes on.
  Put<int64_t>(index, {3, 0});
  ASSERT_TRUE(LaunchGather(*stream_, out, table, index).ok());
  EXPECT_EQ(Get(*stream_, out), (std::vector<float>{4, 1}));
}

TEST_P(StreamTest, FailureIsRaisedBeforeAValueIsSeen) {
  const Vector table = NewVector(4), index = NewVector(1), out = NewVector(1);
  Put<float>(table, {1, 2, 3, 4});
  Put<int64_t>(index, {-1});
  for (int round = 0; round < 100; ++round) {
    ASSERT_TRUE(LaunchGather(*stream_, out, table, index).ok());
    float value;
    EXPECT_EQ(stream_->Download(out.segment, 0, &value, 4).code(),
              Code::kOutOfRange);
  }
}

TEST_P(StreamTest, BadLaunchesAreRefusedHereOrLatch) {
  const Vector x = NewVector(4);
  Operand operand = x.operand();
  LaunchParams params;
  params.kernel = Kernel::kPointwise;
  params.dst = &operand;
  params.num_dst = -1;
  EXPECT_EQ(stream_->Launch(params).status().code(), Code::kInvalidArgument);
  params.num_dst = 1;
  operand.rank = 200;
  EXPECT_EQ(stream_->Launch(params).status().code(), Code::kInvalidArgument);
  operand.rank = 1;
  params.program = 12345;
  EXPECT_EQ(stream_->Launch(params).status().code(), Code::kInvalidArgument);
  // What the daemon alone can see.
  const uint64_t add = BinaryProgram(*session_, PointwiseOp::kAdd);
  ASSERT_TRUE(LaunchBinary(*stream_, add, x, x, Vector{999, 4}).ok());
  EXPECT_EQ(stream_->Synchronize().code(), Code::kInvalidArgument);
  ASSERT_TRUE(LaunchBinary(*stream_, add, x, x, Vector{x.segment, 5}).ok());
  EXPECT_EQ(stream_->Synchronize().code(), Code::kInvalidArgument);
  EXPECT_EQ(stream_->Wait(stream_->last_sequence() + 1).code(),
            Code::kInvalidArgument);
  EXPECT_STATUS_OK(stream_->Synchronize());
}

TEST_P(StreamTest, StreamsComeAndGo) {
  const Vector x = NewVector(4);
  const uint64_t add = BinaryProgram(*session_, PointwiseOp::kAdd);
  for (int i = 0; i < 200; ++i) {
    auto stream = session_->CreateStream();
    ASSERT_TRUE(stream.ok()) << stream.status().message();
    ASSERT_TRUE(LaunchBinary(*stream.value(), add, x, x, x).ok());
    if (i % 2 == 0) {
      EXPECT_STATUS_OK(stream.value()->Synchronize());
    }
  }
  EXPECT_STATUS_OK(stream_->Synchronize());
}

TEST_P(StreamTest, ManyThreadsShareAStream) {
  const Vector x = NewVector(1), one = NewVector(1);
  Put<float>(x, {0});
  Put<float>(one, {1});
  const uint64_t add = BinaryProgram(*session_, PointwiseOp::kAdd);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        ASSERT_TRUE(LaunchBinary(*stream_, add, x, x, one).ok());
        if (i % 100 == 0) {
          EXPECT_STATUS_OK(stream_->Synchronize());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Get(*stream_, x), std::vector<float>{4000});
}

}  // namespace
}  // namespace tvarant::client
