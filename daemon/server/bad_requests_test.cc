// Requests that no client library would send: each is refused and counted, the
// daemon stays up, and the client beside goes on as if nothing were.

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "daemon/server/server_test_util.h"

namespace tvarant {
namespace {

constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();
constexpr int64_t kHugeSigned = std::numeric_limits<int64_t>::max();

class BadRequestsTest : public ::testing::Test {
 protected:
  BadRequestsTest()
      : fixture_({.memory_bytes = 1 << 20}),
        good_(fixture_.socket_path()),
        bad_(fixture_.socket_path()) {
    EXPECT_TRUE(good_.Open().ok() && good_.Attach());
    EXPECT_TRUE(good_.CreateSegment(1, 4096).ok());
    good_stream_ = std::make_unique<RawStream>(good_, 0);
    EXPECT_TRUE(good_stream_->Send(UploadRecord(1, 0, "precious"), 1));
    EXPECT_TRUE(bad_.Open().ok() && bad_.Attach());
    EXPECT_TRUE(bad_.CreateSegment(2, 4096).ok());
    free_bytes_ = bad_.MemoryInfo().free_bytes();
  }
  void TearDown() override {
    // The neighbour's bytes and stream are as they were.
    EXPECT_TRUE(good_stream_->Send(ReadRecord(1, 0, 8), 1));
    const auto answer = good_stream_->Receive();
    ASSERT_TRUE(answer.has_value());
    ASSERT_EQ(answer->reads_size(), 1);
    EXPECT_EQ(answer->reads(0).data(), "precious");
    EXPECT_EQ(answer->failures_size(), 0);
    // Nothing has been reserved.
    EXPECT_EQ(good_.MemoryInfo().free_bytes(), free_bytes_);
    EXPECT_TRUE(RawClient(fixture_.socket_path()).Open().ok());
  }

  // A record, executed by the bad client, fails: it gives this code and leaves
  // its stream in order.
  void ExpectFailure(const std::string& record, grpc::StatusCode code) {
    const uint64_t before = fixture_.Count(Counter::kFailures);
    RawStream stream(bad_, 0);
    ASSERT_TRUE(stream.ok());
    ASSERT_TRUE(stream.Send(record + ReadRecord(2, 0, 1), 2));
    const auto answer = stream.Receive();
    ASSERT_TRUE(answer.has_value());
    ASSERT_EQ(answer->failures_size(), 1);
    EXPECT_EQ(answer->failures(0).code(), code)
        << answer->failures(0).message();
    EXPECT_FALSE(answer->failures(0).message().empty());
    EXPECT_EQ(answer->reads_size(), 1);
    EXPECT_EQ(fixture_.Count(Counter::kFailures), before + 1);
    EXPECT_TRUE(stream.Finish().ok());
  }

  // Bytes that are no records end the stream that they came on, and only that.
  void ExpectBroken(const std::string& records) {
    const uint64_t before = fixture_.Count(Counter::kStreamsBroken);
    RawStream stream(bad_, 0);
    ASSERT_TRUE(stream.ok());
    ASSERT_TRUE(stream.Send(records, 1));
    EXPECT_EQ(stream.Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(fixture_.Count(Counter::kStreamsBroken), before + 1);
  }

  ServerFixture fixture_;
  RawClient good_, bad_;
  std::unique_ptr<RawStream> good_stream_;
  uint64_t free_bytes_ = 0;
};

// A fill of one operand, changed before it is packed.
std::string Fill(const std::function<void(LaunchParams&, Operand&)>& change,
                 std::vector<int64_t> sizes = {4},
                 std::vector<int64_t> strides = {1}) {
  const int64_t ints[] = {0, 0};
  Operand dst;
  dst.segment = 2;
  dst.dtype = DType::kFloat32;
  dst.rank = static_cast<uint8_t>(sizes.size());
  dst.sizes = sizes.data();
  dst.strides = strides.data();
  LaunchParams params;
  params.kernel = Kernel::kFill;
  params.ints = ints;
  params.num_ints = 2;
  params.dst = &dst;
  params.num_dst = 1;
  change(params, dst);
  std::string record;
  EXPECT_TRUE(RecordWriter(&record).Launch(params));
  return record;
}

std::string Patched(std::string record, size_t at, uint8_t value) {
  record.at(at) = static_cast<char>(value);
  return record;
}

TEST_F(BadRequestsTest, ForgedTokens) {
  const std::string token = bad_.token();
  std::mt19937 random(1);
  const uint64_t before = fixture_.Count(Counter::kCallsUnauthenticated);
  std::vector<std::string> forged = {"", "x", std::string(31, '\0'),
                                     std::string(32, '\0'),
                                     std::string(4000, 'x')};
  for (int i = 0; i < 20; ++i) {
    std::string bytes(32, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    forged.push_back(bytes);
    bytes = token;
    bytes[random() % 32] ^= static_cast<char>(1 + random() % 255);
    forged.push_back(bytes);
  }
  for (const std::string& bytes : forged) {
    bad_.set_token(bytes);
    EXPECT_EQ(bad_.CreateSegment(9, 4096).error_code(),
              grpc::StatusCode::UNAUTHENTICATED);
  }
  EXPECT_EQ(fixture_.Count(Counter::kCallsUnauthenticated),
            before + forged.size());
  bad_.set_token(token);
}

TEST_F(BadRequestsTest, MetadataIsBounded) {
  const std::string token = bad_.token();
  bad_.set_token(std::string(64 << 10, 'x'));
  EXPECT_FALSE(bad_.CreateSegment(9, 4096).ok());
  bad_.set_token(token);
}

TEST_F(BadRequestsTest, MemoryThatCannotBe) {
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1} << 21,
                               uint64_t{1} << 63, kHuge - 4095, kHuge}) {
    EXPECT_FALSE(bad_.CreateSegment(9, bytes).ok()) << bytes;
    EXPECT_FALSE(bad_.CreateStaging(9, bytes).ok()) << bytes;
  }
  EXPECT_FALSE(bad_.CreateSegment(0, 4096).ok());
  EXPECT_FALSE(bad_.CreateSegment(2, 4096).ok());
  EXPECT_GT(fixture_.Count(Counter::kSegmentsRefused), 0u);
}

TEST_F(BadRequestsTest, ReleasesOfWhatIsNotThere) {
  EXPECT_FALSE(bad_.ReleaseSegments({1}).ok());  // the neighbour's
  EXPECT_FALSE(bad_.ReleaseSegments({2, 2}).ok());
  EXPECT_FALSE(bad_.ReleaseSegments({0, kHuge}).ok());
  EXPECT_FALSE(bad_.ReleaseSegments(std::vector<uint64_t>(100000, kHuge)).ok());
  v1::StreamPoint point;
  point.set_stream(std::numeric_limits<uint32_t>::max());
  EXPECT_FALSE(bad_.ReleaseSegments({2}, {point}).ok());
  point.set_stream(0);
  EXPECT_FALSE(
      bad_.ReleaseSegments({2}, std::vector<v1::StreamPoint>(1000, point))
          .ok());
}

TEST_F(BadRequestsTest, OperandsOutsideOfTheirMemory) {
  const auto invalid = grpc::StatusCode::INVALID_ARGUMENT;
  const auto segment = [](uint64_t handle) {
    return [handle](LaunchParams&, Operand& dst) { dst.segment = handle; };
  };
  const auto offset = [](uint64_t bytes) {
    return [bytes](LaunchParams&, Operand& dst) { dst.offset_bytes = bytes; };
  };
  const auto nothing = [](LaunchParams&, Operand&) {};
  // The neighbour's, and handles that nobody has.
  for (const uint64_t handle : {uint64_t{1}, uint64_t{77}, kHuge}) {
    ExpectFailure(Fill(segment(handle)), invalid);
  }
  for (const uint64_t bytes : {uint64_t{4084}, uint64_t{4096}, kHuge - 3}) {
    ExpectFailure(Fill(offset(bytes)), invalid);
  }
  ExpectFailure(Fill(nothing, {1025}, {1}), invalid);
  ExpectFailure(Fill(nothing, {kHugeSigned}, {1}), invalid);
  ExpectFailure(Fill(nothing, {2}, {kHugeSigned}), invalid);
  ExpectFailure(Fill(nothing, {kHugeSigned, kHugeSigned}, {1, 1}), invalid);
  ExpectFailure(Fill(nothing, {int64_t{1} << 32, int64_t{1} << 32},
                     {int64_t{1} << 32, 1}),
                invalid);
}

TEST_F(BadRequestsTest, LaunchesThatMakeNoSense) {
  const auto invalid = grpc::StatusCode::INVALID_ARGUMENT;
  ExpectFailure(Fill([](LaunchParams& params, Operand&) {
                  params.kernel = Kernel::kPointwise;
                  params.program = 12345;
                }),
                invalid);
  ExpectFailure(
      Fill([](LaunchParams& params, Operand&) { params.num_ints = 0; }),
      invalid);
  ExpectFailure(
      Fill([](LaunchParams& params, Operand&) { params.num_dst = 0; }),
      invalid);
}

TEST_F(BadRequestsTest, RecordsThatAreNone) {
  const std::string good = FillRecord(2, 4);
  const size_t launch = sizeof(RecordHead);
  const size_t operand = launch + sizeof(LaunchHead) + 2 * sizeof(int64_t);
  // Every truncation, whatever the head says.
  for (size_t bytes = 1; bytes < good.size(); bytes += 7) {
    ExpectBroken(good.substr(0, bytes));
  }
  ExpectBroken(Patched(good, offsetof(RecordHead, kind), 0));
  ExpectBroken(Patched(good, offsetof(RecordHead, kind), 99));
  ExpectBroken(Patched(good, offsetof(RecordHead, version), 200));
  ExpectBroken(Patched(good, offsetof(RecordHead, size_bytes), 1));
  ExpectBroken(Patched(good, offsetof(RecordHead, size_bytes) + 3, 0xff));
  // Counts of ints, floats and operands that are not there.
  for (const size_t field :
       {offsetof(LaunchHead, num_ints), offsetof(LaunchHead, num_floats),
        offsetof(LaunchHead, num_dst), offsetof(LaunchHead, num_src)}) {
    ExpectBroken(Patched(good, launch + field + 1, 0xff));
  }
  ExpectBroken(Patched(good, operand + offsetof(OperandHead, dtype), 0xfe));
  ExpectBroken(Patched(good, operand + offsetof(OperandHead, rank), 0xff));
  // Sizes and strides below zero.
  ExpectBroken(Patched(good, operand + sizeof(OperandHead) + 7, 0xff));
  ExpectBroken(Patched(good, operand + sizeof(OperandHead) + 15, 0xff));
}

TEST_F(BadRequestsTest, TransfersOutsideOfTheirMemory) {
  const auto invalid = grpc::StatusCode::INVALID_ARGUMENT;
  const auto fails = [&](RecordKind kind, uint64_t handle, uint64_t offset,
                         uint64_t handle2, uint64_t bytes) {
    TransferBody body{};
    body.handle = handle;
    body.offset_bytes = offset;
    body.handle2 = handle2;
    body.bytes = bytes;
    ExpectFailure(TransferRecord(kind, body), invalid);
  };
  fails(RecordKind::kRead, 2, 4096, 0, 1);
  fails(RecordKind::kRead, 2, kHuge, 0, 8);
  fails(RecordKind::kRead, 1, 0, 0, 8);  // the neighbour's
  ExpectFailure(UploadRecord(2, kHuge - 7, "12345678"), invalid);
  fails(RecordKind::kCopyBytes, 2, 0, 1, 8);  // the neighbour's
  fails(RecordKind::kCopyBytes, 2, 0, 2, kHuge);
  fails(RecordKind::kUploadStaged, 2, 0, 5, 8);
  fails(RecordKind::kDownloadStaged, 2, 0, 5, 8);
  fails(RecordKind::kWaitEvent, 3, 0, kHuge, 0);
}

TEST_F(BadRequestsTest, ProgramsThatAreNone) {
  std::mt19937 random(2);
  for (int i = 0; i < 20; ++i) {
    std::string bytes(random() % 200, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    std::string record;
    RecordWriter(&record).DefineProgram(7, bytes);
    ExpectFailure(record, grpc::StatusCode::INVALID_ARGUMENT);
  }
  EXPECT_EQ(fixture_.Count(Counter::kPrograms), 0u);
}

TEST_F(BadRequestsTest, MessagesBeyondTheLimit) {
  RawStream stream(bad_, 0);
  ASSERT_TRUE(stream.ok());
  v1::CommandBatch batch;
  batch.set_first_sequence(1);
  batch.set_records(std::string(16 << 20, 'x'));
  stream.SendRaw(batch);
  EXPECT_FALSE(stream.Finish().ok());
}

// All streams that one user may have, each with its thread, leave the calls
// of another user's alone; here the other is the neighbour, since a test has
// one user: the limit of the session stands for it.
TEST_F(BadRequestsTest, OneClientTakesNotAllStreams) {
  std::vector<std::unique_ptr<RawStream>> streams;
  int open = 0;
  for (uint32_t i = 0; i < 200; ++i) {
    streams.push_back(std::make_unique<RawStream>(bad_, i));
    if (streams.back()->ok()) ++open;
  }
  EXPECT_LE(open, kMaxStreamsPerSession);
  EXPECT_GT(fixture_.Count(Counter::kStreamsRefused), 0u);
  RawStream more(good_, 1);
  EXPECT_TRUE(more.ok());
}

// Bytes under way beyond the user's limit: the batch is answered, and the next
// one runs.
TEST(UserLimitsTest, CommandsUnderWay) {
  ServerFixture fixture({}, [](ServerOptions& options) {
    options.users.others.limits[Limit::kUserQueuedBytes] = 4096;
  });
  RawClient client(fixture.socket_path());
  ASSERT_TRUE(client.Open().ok() && client.Attach());
  ASSERT_TRUE(client.CreateSegment(1, 1 << 16).ok());
  RawStream stream(client, 0);
  ASSERT_TRUE(stream.Send(
      UploadRecord(1, 0, std::string(8192, 'x')) + ReadRecord(1, 0, 1), 2));
  auto answer = stream.Receive();
  ASSERT_TRUE(answer.has_value());
  ASSERT_EQ(answer->failures_size(), 2);
  EXPECT_EQ(answer->failures(0).code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(answer->failures(0).message().find("max_queued_bytes_per_user"),
            std::string::npos);
  EXPECT_EQ(answer->reads_size(), 0);
  ASSERT_TRUE(stream.Send(ReadRecord(1, 0, 1), 1));
  answer = stream.Receive();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->failures_size(), 0);
  EXPECT_EQ(answer->reads(0).data(), std::string(1, '\0'));
}

TEST(UserLimitsTest, BytesStreamsAndProgramsOfAllSessions) {
  ServerFixture fixture({.memory_bytes = 1 << 20}, [](ServerOptions& options) {
    options.users.others.limits[Limit::kUserBytes] = 12288;
    options.users.others.limits[Limit::kUserStreams] = 2;
    options.users.others.limits[Limit::kUserPrograms] = 1;
  });
  RawClient a(fixture.socket_path()), b(fixture.socket_path());
  ASSERT_TRUE(a.Open().ok() && a.Attach() && b.Open().ok() && b.Attach());
  EXPECT_TRUE(a.CreateSegment(1, 8192).ok());
  const grpc::Status refused = b.CreateSegment(1, 8192);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(refused.error_message().find("max_bytes_per_user"),
            std::string::npos);
  EXPECT_TRUE(b.CreateSegment(1, 4096).ok());
  EXPECT_FALSE(b.CreateStaging(2, 4096).ok());
  {
    RawStream first(a, 0), second(b, 0), third(b, 1);
    EXPECT_TRUE(first.ok() && second.ok());
    EXPECT_FALSE(third.ok());
    EXPECT_EQ(third.Finish().error_code(),
              grpc::StatusCode::RESOURCE_EXHAUSTED);
  }
  // All of it comes back with the session.
  ASSERT_TRUE(a.Close().ok());
  EXPECT_TRUE(Eventually([&] { return b.CreateSegment(3, 8192).ok(); }));
  EXPECT_TRUE(Eventually([&] {
    RawStream first(b, 2), second(b, 3);
    return first.ok() && second.ok();
  }));
}

}  // namespace
}  // namespace tvarant
