// Command streams through the whole server: order, answers, failures, events.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "absl/synchronization/notification.h"
#include "daemon/server/server_test_util.h"

namespace tvarant {
namespace {

using ::testing::HasSubstr;

class StreamTest : public ::testing::Test {
 protected:
  void Serve(FakeRuntimeOptions runtime = {},
             std::function<void(ServerOptions&)> change = nullptr) {
    fixture_.emplace(std::move(runtime), std::move(change));
    client_.emplace(fixture_->socket_path());
    ASSERT_TRUE(client_->Open().ok());
    ASSERT_TRUE(client_->Attach());
    ASSERT_TRUE(client_->CreateSegment(1, 1 << 16).ok());
  }
  uint64_t Completed(int stream) {
    return client_->page()->streams[stream].completed.load();
  }

  std::optional<ServerFixture> fixture_;
  std::optional<RawClient> client_;
};

TEST_F(StreamTest, RunsRecordsInOrderAndAnswersReads) {
  for (const bool synchronous : {true, false}) {
    Serve({.synchronous = synchronous});
    RawStream stream(*client_, 0);
    ASSERT_TRUE(stream.ok());
    std::string records = UploadRecord(1, 0, "abcdefgh");
    records += ReadRecord(1, 2, 3);
    records += UploadRecord(1, 0, "ABCDEFGH");
    records += ReadRecord(1, 0, 8);
    records += ReadRecord(1, 0, 0);
    ASSERT_TRUE(stream.Send(records, 5));
    const auto completion = stream.Receive();
    ASSERT_TRUE(completion.has_value());
    EXPECT_EQ(completion->completed_sequence(), 5u);
    ASSERT_EQ(completion->reads_size(), 3);
    EXPECT_EQ(completion->reads(0).sequence(), 2u);
    EXPECT_EQ(completion->reads(0).data(), "cde");
    EXPECT_EQ(completion->reads(1).data(), "ABCDEFGH");
    EXPECT_EQ(completion->reads(2).data(), "");
    EXPECT_EQ(completion->failures_size(), 0);
    EXPECT_EQ(Completed(0), 5u);
    EXPECT_TRUE(stream.Finish().ok());
  }
}

TEST_F(StreamTest, ProgressIsInThePageAndNotSent) {
  Serve();
  RawStream stream(*client_, 3);
  ASSERT_TRUE(stream.ok());
  ASSERT_TRUE(stream.Send(FillRecord(1, 4) + FillRecord(1, 8), 2));
  EXPECT_TRUE(Eventually([&] { return Completed(3) == 2; }));
  // The next answer is the one to the read: nothing was sent for the first.
  ASSERT_TRUE(stream.Send(ReadRecord(1, 0, 1), 1));
  const auto completion = stream.Receive();
  ASSERT_TRUE(completion.has_value());
  EXPECT_EQ(completion->completed_sequence(), 3u);
  EXPECT_EQ(fixture_->Count(Counter::kLaunches), 2u);
}

TEST_F(StreamTest, WithoutAPageEachBatchIsAnswered) {
  Serve();
  RawClient remote(fixture_->socket_path());
  ASSERT_TRUE(remote.Open().ok());
  ASSERT_TRUE(remote.CreateSegment(1, 4096).ok());
  RawStream stream(remote, 0);
  ASSERT_TRUE(stream.Send(FillRecord(1, 4), 1));
  auto completion = stream.Receive();
  ASSERT_TRUE(completion.has_value());
  EXPECT_EQ(completion->completed_sequence(), 1u);
}

TEST_F(StreamTest, AFailureIsReportedAndTheRestRuns) {
  std::atomic<int> launches{0};
  Serve({.on_launch = [&](const ResolvedLaunch&) {
    return ++launches == 2 ? absl::OutOfRangeError("fill: index 7")
                           : absl::OkStatus();
  }});
  RawStream stream(*client_, 0);
  std::string records;
  for (int i = 0; i < 3; ++i) records += FillRecord(1, 4);
  ASSERT_TRUE(stream.Send(records, 3));
  const auto completion = stream.Receive();
  ASSERT_TRUE(completion.has_value());
  ASSERT_EQ(completion->failures_size(), 1);
  EXPECT_EQ(completion->failures(0).sequence(), 2u);
  EXPECT_EQ(completion->failures(0).code(),
            static_cast<int>(absl::StatusCode::kOutOfRange));
  EXPECT_EQ(completion->failures(0).op(), "fill");
  EXPECT_EQ(completion->failures(0).message(), "fill: index 7");
  EXPECT_EQ(completion->completed_sequence(), 3u);
  EXPECT_EQ(launches.load(), 3);
  EXPECT_EQ(client_->page()->streams[0].errors.load(), 1u);
  // The session goes on.
  ASSERT_TRUE(stream.Send(ReadRecord(1, 0, 1), 1));
  EXPECT_TRUE(stream.Receive().has_value());
}

TEST_F(StreamTest, WrongHandlesAndRangesFailTheRecord) {
  Serve();
  RawStream stream(*client_, 0);
  std::string records;
  records += ReadRecord(99, 0, 8);            // unknown
  records += ReadRecord(1, 1 << 16, 1);       // past the end
  records += ReadRecord(1, ~uint64_t{0}, 8);  // wraps
  records += FillRecord(1, (1 << 14) + 1);    // one element too many
  records += FillRecord(99, 4);
  records += TransferRecord(RecordKind::kCopyBytes, {.handle = 1,
                                                     .offset_bytes = 0,
                                                     .handle2 = 1,
                                                     .offset2_bytes = 8,
                                                     .bytes = 16});  // overlaps
  records += TransferRecord(RecordKind::kUploadStaged, {.handle = 1,
                                                        .offset_bytes = 0,
                                                        .handle2 = 44,
                                                        .offset2_bytes = 0,
                                                        .bytes = 16});
  ASSERT_TRUE(stream.Send(records, 7));
  const auto completion = stream.Receive();
  ASSERT_TRUE(completion.has_value());
  ASSERT_EQ(completion->failures_size(), 7);
  for (int i = 0; i < 7; ++i) {
    EXPECT_EQ(completion->failures(i).sequence(), static_cast<uint64_t>(i + 1));
    EXPECT_EQ(completion->failures(i).code(),
              static_cast<int>(absl::StatusCode::kInvalidArgument))
        << completion->failures(i).message();
  }
  EXPECT_THAT(completion->failures(4).message(), HasSubstr("segment 99"));
  EXPECT_EQ(client_->page()->streams[0].errors.load(), 7u);
}

TEST_F(StreamTest, ManyFailuresAreBoundedButFailedReadsAllAnswered) {
  Serve();
  RawStream stream(*client_, 0);
  std::string records;
  for (int i = 0; i < 100; ++i) records += FillRecord(99, 4);
  for (int i = 0; i < 100; ++i) records += ReadRecord(99, 0, 1);
  ASSERT_TRUE(stream.Send(records, 200));
  const auto completion = stream.Receive();
  ASSERT_TRUE(completion.has_value());
  EXPECT_EQ(completion->failures_size(), 116);
  EXPECT_EQ(client_->page()->streams[0].errors.load(), 116u);
  EXPECT_EQ(fixture_->Count(Counter::kFailures), 200u);
}

TEST_F(StreamTest, ABatchOfManyReadsIsAnsweredInParts) {
  Serve();
  RawStream stream(*client_, 0);
  std::string records;
  for (int i = 0; i < 64; ++i) records += ReadRecord(1, 0, 1 << 16);
  ASSERT_TRUE(stream.Send(records, 64));
  int reads = 0, messages = 0;
  while (reads < 64) {
    const auto completion = stream.Receive();
    ASSERT_TRUE(completion.has_value());
    reads += completion->reads_size();
    ++messages;
  }
  EXPECT_EQ(reads, 64);
  EXPECT_GE(messages, 10);
}

TEST_F(StreamTest, BytesThatAreNoRecordsEndTheStream) {
  Serve();
  for (const std::string& bytes :
       {std::string("garbage!garbage!"), std::string(7, 'x'),
        std::string(8, '\xff'), ReadRecord(1, 0, 8) + "junk"}) {
    RawStream stream(*client_, 0);
    ASSERT_TRUE(stream.ok());
    ASSERT_TRUE(stream.Send(bytes, 1));
    EXPECT_EQ(stream.Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  }
  EXPECT_EQ(fixture_->Count(Counter::kStreamsBroken), 4u);
  // The session is as it was.
  RawStream stream(*client_, 0);
  ASSERT_TRUE(stream.Send(ReadRecord(1, 0, 8), 1));
  EXPECT_TRUE(stream.Receive().has_value());
}

TEST_F(StreamTest, SequenceNumbersHaveNoGaps) {
  Serve();
  RawStream stream(*client_, 0);
  v1::CommandBatch batch;
  batch.set_first_sequence(2);
  batch.set_records(ReadRecord(1, 0, 8));
  ASSERT_TRUE(stream.SendRaw(batch));
  const grpc::Status status = stream.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("want 1"));
}

TEST_F(StreamTest, StreamNumbersAreChecked) {
  Serve();
  RawStream first(*client_, 7);
  ASSERT_TRUE(first.ok());
  RawStream again(*client_, 7);
  EXPECT_FALSE(again.ok());
  EXPECT_EQ(again.Finish().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  for (const uint32_t number : {64u, ~0u}) {
    RawStream beyond(*client_, number);
    EXPECT_FALSE(beyond.ok());
    EXPECT_EQ(beyond.Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  }
  ASSERT_TRUE(first.Finish().ok());
  RawStream reused(*client_, 7);
  EXPECT_TRUE(reused.ok());
}

TEST_F(StreamTest, FirstMessageMustOpen) {
  Serve();
  auto context = client_->Context();
  auto io = client_->device().RunStream(context.get());
  v1::CommandBatch batch;
  batch.set_first_sequence(1);
  batch.set_records(ReadRecord(1, 0, 8));
  io->Write(batch);
  v1::Completion ignored;
  EXPECT_FALSE(io->Read(&ignored));
  EXPECT_EQ(io->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(StreamTest, LimitOfAllStreamsLeavesOtherCallsAlone) {
  Serve({}, [](ServerOptions& options) { options.max_streams = 2; });
  RawStream a(*client_, 0), b(*client_, 1), c(*client_, 2);
  EXPECT_TRUE(a.ok() && b.ok());
  EXPECT_FALSE(c.ok());
  EXPECT_EQ(c.Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(client_->CreateSegment(2, 4096).ok());
  ASSERT_TRUE(a.Finish().ok());
  RawStream d(*client_, 2);
  EXPECT_TRUE(d.ok());
}

TransferBody WaitFor(uint32_t stream, uint64_t sequence) {
  return {.handle = 5,
          .offset_bytes = 0,
          .handle2 = stream + 1,
          .offset2_bytes = sequence,
          .bytes = 0};
}

TEST_F(StreamTest, AWaitHoldsUntilTheOtherStreamIsThere) {
  absl::Notification go;
  Serve({.on_launch = [&](const ResolvedLaunch&) {
    go.WaitForNotification();
    return absl::OkStatus();
  }});
  // The wait arrives before the stream it waits for is open.
  RawStream waiting(*client_, 1);
  ASSERT_TRUE(
      waiting.Send(TransferRecord(RecordKind::kWaitEvent, WaitFor(0, 2)) +
                       ReadRecord(1, 0, 4),
                   2));
  RawStream working(*client_, 0);
  ASSERT_TRUE(working.Send(
      FillRecord(1, 4) +
          TransferRecord(RecordKind::kRecordEvent, {.handle = 5,
                                                    .offset_bytes = 0,
                                                    .handle2 = 0,
                                                    .offset2_bytes = 0,
                                                    .bytes = 0}),
      2));
  EXPECT_EQ(Completed(1), 0u);
  go.Notify();
  EXPECT_TRUE(waiting.Receive().has_value());
  EXPECT_EQ(Completed(0), 2u);
}

TEST_F(StreamTest, AnUnknownEventIsNotWaitedFor) {
  Serve();
  RawStream stream(*client_, 0);
  TransferBody unknown = WaitFor(0, 0);
  unknown.handle2 = 0;
  ASSERT_TRUE(stream.Send(
      TransferRecord(RecordKind::kWaitEvent, unknown) + ReadRecord(1, 0, 4),
      2));
  EXPECT_TRUE(stream.Receive().has_value());
}

TEST_F(StreamTest, WaitsForImpossiblePointsFailOrEndWithTheSession) {
  Serve();
  RawStream stream(*client_, 0);
  std::string records = TransferRecord(RecordKind::kWaitEvent, WaitFor(0, 9));
  records += TransferRecord(RecordKind::kWaitEvent, WaitFor(64, 1));
  records += ReadRecord(1, 0, 4);
  ASSERT_TRUE(stream.Send(records, 3));
  const auto completion = stream.Receive();
  ASSERT_TRUE(completion.has_value());
  EXPECT_EQ(completion->failures_size(), 2);

  RawStream stuck(*client_, 1);
  ASSERT_TRUE(
      stuck.Send(TransferRecord(RecordKind::kWaitEvent, WaitFor(9, 1)), 1));
  client_->Die();
  EXPECT_FALSE(stuck.Receive().has_value());
  EXPECT_TRUE(Eventually(
      [&] { return fixture_->runtime().free_memory_bytes(0) == 64u << 20; }));
}

TEST_F(StreamTest, ReleasedSegmentsStayUntilTheirPoint) {
  absl::Notification go;
  Serve({.on_launch = [&](const ResolvedLaunch&) {
    go.WaitForNotification();
    return absl::OkStatus();
  }});
  ASSERT_TRUE(client_->CreateSegment(2, 1 << 20).ok());
  RawStream stream(*client_, 0);
  ASSERT_TRUE(stream.Send(FillRecord(1, 4), 1));
  ASSERT_TRUE(stream.Send(UploadRecord(2, 0, "queued"), 1));
  v1::StreamPoint point;
  point.set_stream(0);
  point.set_sequence(2);
  ASSERT_TRUE(client_->ReleaseSegments({2}, {point}).ok());
  EXPECT_EQ(client_->MemoryInfo().session_bytes(), (1u << 20) + (1u << 16));
  go.Notify();
  EXPECT_TRUE(Eventually(
      [&] { return client_->MemoryInfo().session_bytes() == 1u << 16; }));
  ASSERT_TRUE(stream.Send(ReadRecord(2, 0, 6), 1));
  const auto completion = stream.Receive();
  ASSERT_TRUE(completion.has_value());
  // Only the read after the release fails; the upload before it did not.
  ASSERT_EQ(completion->failures_size(), 1);
  EXPECT_EQ(completion->failures(0).sequence(), 3u);
}

TEST_F(StreamTest, MemoryThatIsOnItsWayBackIsWaitedFor) {
  absl::Notification go;
  Serve({.on_launch = [&](const ResolvedLaunch&) {
    go.WaitForNotification();
    return absl::OkStatus();
  }});
  ASSERT_TRUE(client_->CreateSegment(2, 40 << 20).ok());
  RawStream stream(*client_, 0);
  ASSERT_TRUE(stream.Send(FillRecord(2, 4), 1));
  // Nothing has been released: refused at once.
  EXPECT_EQ(client_->CreateSegment(3, 40 << 20).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  v1::StreamPoint point;
  point.set_stream(0);
  point.set_sequence(1);
  ASSERT_TRUE(client_->ReleaseSegments({2}, {point}).ok());
  std::thread device([&] {
    // The call below should be waiting by then; if not, less is tested.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    go.Notify();
  });
  EXPECT_TRUE(client_->CreateSegment(3, 40 << 20).ok());
  device.join();
  EXPECT_EQ(client_->MemoryInfo().session_bytes(), (40u << 20) + (1u << 16));
}

TEST_F(StreamTest, MarkersHaveTimes) {
  Serve();
  RawStream stream(*client_, 0);
  const std::string marker = TransferRecord(RecordKind::kMarker, {});
  ASSERT_TRUE(stream.Send(marker + marker, 2));
  const auto completion = stream.Receive();
  ASSERT_TRUE(completion.has_value());
  ASSERT_EQ(completion->marker_times_size(), 2);
  EXPECT_EQ(completion->marker_times(1).sequence(), 2u);
  EXPECT_GE(completion->marker_times(1).time_ns(),
            completion->marker_times(0).time_ns());
}

TEST_F(StreamTest, ProgramsAreDefinedOnceAndNamedInFailures) {
  Serve({.on_launch = [](const ResolvedLaunch& launch) {
    EXPECT_NE(launch.program_key, 0u);
    return absl::InternalError("broken");
  }});
  ProgramBuilder builder;
  builder.Store(builder.Op(PointwiseOp::kExp, DType::kFloat32,
                           builder.Load(0, DType::kFloat32)));
  const std::string bytes = std::move(builder).Build().Serialize();
  ProgramBuilder other;
  other.Store(other.Op(PointwiseOp::kSin, DType::kFloat32,
                       other.Load(0, DType::kFloat32)));
  std::string records;
  RecordWriter writer(&records);
  writer.DefineProgram(8, bytes);
  writer.DefineProgram(8, bytes);  // the same again: fine
  writer.DefineProgram(8, std::move(other).Build().Serialize());
  writer.DefineProgram(9, "no program at all");
  const int64_t size = 4, stride = 1;
  Operand operand;
  operand.segment = 1;
  operand.dtype = DType::kFloat32;
  operand.rank = 1;
  operand.sizes = &size;
  operand.strides = &stride;
  LaunchParams params;
  params.kernel = Kernel::kPointwise;
  params.program = 8;
  params.dst = &operand;
  params.num_dst = 1;
  params.src = &operand;
  params.num_src = 1;
  ASSERT_TRUE(writer.Launch(params));
  params.program = 77;
  ASSERT_TRUE(writer.Launch(params));
  RawStream stream(*client_, 0);
  ASSERT_TRUE(stream.Send(records, 6));
  const auto completion = stream.Receive();
  ASSERT_TRUE(completion.has_value());
  ASSERT_EQ(completion->failures_size(), 4);
  EXPECT_EQ(completion->failures(0).sequence(), 3u);
  EXPECT_EQ(completion->failures(1).sequence(), 4u);
  EXPECT_EQ(completion->failures(2).sequence(), 5u);
  EXPECT_EQ(completion->failures(2).op(), "exp");
  EXPECT_EQ(completion->failures(3).op(), "pointwise");
}

TEST_F(StreamTest, ACancelledStreamFreesItsNumber) {
  Serve();
  {
    RawStream stream(*client_, 0);
    ASSERT_TRUE(stream.ok());
    stream.Cancel();
  }
  EXPECT_TRUE(Eventually([&] { return RawStream(*client_, 0).ok(); }));
}

TEST_F(StreamTest, DrainLetsRunningCommandsFinish) {
  absl::Notification started;
  std::atomic<bool> finished{false};
  Serve({.on_launch = [&](const ResolvedLaunch&) {
    started.Notify();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    finished = true;
    return absl::OkStatus();
  }});
  RawStream stream(*client_, 0);
  ASSERT_TRUE(stream.Send(FillRecord(1, 4), 1));
  started.WaitForNotification();
  fixture_->server().Drain(std::chrono::seconds(5));
  EXPECT_TRUE(finished);
  EXPECT_EQ(Completed(0), 1u);
  EXPECT_EQ(client_->page()->dead.load(), 1u);
  EXPECT_FALSE(ConnectSocket(fixture_->socket_path()).ok());
}

}  // namespace
}  // namespace tvarant
