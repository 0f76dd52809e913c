// Sessions through the whole server: opening, limits, memory, their end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "daemon/server/server_test_util.h"
#include "proto/ops/op_table_rows.h"

namespace tvarant {
namespace {

using ::testing::HasSubstr;

TEST(SessionTest, OpensAndTellsWhatItIs) {
  ServerFixture fixture;
  RawClient client(fixture.socket_path());
  ASSERT_TRUE(client.Open().ok());
  EXPECT_EQ(client.token().size(), 32u);
  EXPECT_EQ(client.session().protocol(), 1u);
  EXPECT_EQ(client.session().properties().name(), "fake device");
  EXPECT_EQ(client.session().properties().device_count(), 1);
  EXPECT_EQ(client.session().limits().max_streams(), 64u);
  EXPECT_TRUE(client.session().memory_is_mappable());
  RawClient other(fixture.socket_path());
  ASSERT_TRUE(other.Open().ok());
  EXPECT_NE(client.token(), other.token());
}

TEST(SessionTest, RefusesOtherVersionsAndSaysBoth) {
  ServerFixture fixture;
  RawClient client(fixture.socket_path());
  auto request = client.ValidOpenRequest();
  request.set_min_protocol(2);
  request.set_max_protocol(9);
  grpc::Status status = client.Open(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("protocol 1 to 1"));
  EXPECT_THAT(status.error_message(), HasSubstr("2 to 9"));

  request = client.ValidOpenRequest();
  request.set_op_table_hash(0xabcdef);
  status = client.Open(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("0000000000abcdef"));

  // A client whose tables are a part of the daemon's, and one with a row more.
  const std::vector<OpTableRow> rows = OpTableRows();
  const OpTableRow gemm =
      *std::find_if(rows.begin(), rows.end(), [](const OpTableRow& row) {
        return row.table == OpTable::kKernels &&
               row.id == static_cast<uint32_t>(Kernel::kGemm);
      });
  request.add_op_rows(gemm.Packed());
  EXPECT_TRUE(client.Open(request).ok());
  request.add_op_rows(gemm.Packed() + 1);
  status = client.Open(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("0000000000abcdef"));

  // A newer client that still speaks version 1.
  request = client.ValidOpenRequest();
  request.set_max_protocol(5);
  ASSERT_TRUE(client.Open(request).ok());
  EXPECT_EQ(client.session().protocol(), 1u);
  EXPECT_EQ(fixture.Count(Counter::kSessionsRefused), 3u);
}

TEST(SessionTest, RefusesNonsense) {
  ServerFixture fixture;
  RawClient client(fixture.socket_path());
  auto request = client.ValidOpenRequest();
  request.set_min_protocol(3);
  EXPECT_EQ(client.Open(request).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  request = client.ValidOpenRequest();
  request.set_client_name(std::string(257, 'n'));
  EXPECT_EQ(client.Open(request).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  request = client.ValidOpenRequest();
  request.set_device_index(1);
  EXPECT_EQ(client.Open(request).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  request.set_device_index(-1);
  EXPECT_EQ(client.Open(request).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST(SessionTest, WantsTheTokenOfTheSession) {
  ServerFixture fixture;
  RawClient client(fixture.socket_path());
  ASSERT_TRUE(client.Open().ok());
  ASSERT_TRUE(client.CreateSegment(1, 4096).ok());
  const std::string token = client.token();
  std::string wrong = token;
  wrong[31] ^= 1;
  for (const std::string& other : {std::string(), std::string("short"), wrong,
                                   token + "x", std::string(32, '\0')}) {
    client.set_token(other);
    EXPECT_EQ(client.CreateSegment(2, 4096).error_code(),
              grpc::StatusCode::UNAUTHENTICATED);
    RawStream stream(client, 0);
    EXPECT_FALSE(stream.ok());
    EXPECT_EQ(stream.Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
  }
  client.set_token(token);
  EXPECT_TRUE(client.CreateSegment(2, 4096).ok());
}

TEST(SessionTest, LimitsSessionsOfAUserAndOfAll) {
  ServerFixture fixture({}, [](ServerOptions& options) {
    options.users.others.limits[Limit::kUserSessions] = 2;
  });
  RawClient a(fixture.socket_path()), b(fixture.socket_path()),
      c(fixture.socket_path());
  ASSERT_TRUE(a.Open().ok());
  ASSERT_TRUE(b.Open().ok());
  EXPECT_EQ(c.Open().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  ASSERT_TRUE(a.Close().ok());
  EXPECT_TRUE(c.Open().ok());
}

TEST(SessionTest, MemoryIsCountedAndGivenBack) {
  ServerFixture fixture({.memory_bytes = 1 << 20});
  RawClient client(fixture.socket_path());
  ASSERT_TRUE(client.Open().ok());
  ASSERT_TRUE(client.CreateSegment(1, 700000).ok());
  auto info = client.MemoryInfo();
  EXPECT_EQ(info.total_bytes(), 1u << 20);
  EXPECT_EQ(info.free_bytes(), (1u << 20) - 700000);
  EXPECT_EQ(info.session_bytes(), 700000u);

  const grpc::Status status = client.CreateSegment(2, 400000);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("400000"));
  EXPECT_THAT(status.error_message(), HasSubstr("348576"));

  ASSERT_TRUE(client.ReleaseSegments({1}).ok());
  EXPECT_EQ(client.MemoryInfo().session_bytes(), 0u);
  EXPECT_TRUE(client.CreateSegment(2, 400000).ok());
}

TEST(SessionTest, RefusesHugeAndWrongSegments) {
  ServerFixture fixture;
  RawClient client(fixture.socket_path());
  ASSERT_TRUE(client.Open().ok());
  EXPECT_EQ(client.CreateSegment(1, uint64_t{1} << 60).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(client.CreateSegment(1, ~uint64_t{0}).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(client.CreateSegment(1, 0).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(client.CreateSegment(0, 4096).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  ASSERT_TRUE(client.CreateSegment(1, 4096).ok());
  EXPECT_EQ(client.CreateSegment(1, 4096).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  // Mapped memory has no way to the client without a side connection.
  EXPECT_EQ(client.CreateSegment(2, 4096, /*map=*/true).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(client.CreateStaging(3, 4096).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(client.MemoryInfo().session_bytes(), 4096u);
}

TEST(SessionTest, QuotaOfASession) {
  ServerFixture fixture({}, [](ServerOptions& options) {
    options.users.others.limits[Limit::kSessionBytes] = 8192;
    options.users.others.limits[Limit::kSessionSegments] = 2;
  });
  RawClient client(fixture.socket_path());
  ASSERT_TRUE(client.Open().ok());
  EXPECT_EQ(client.session().limits().max_session_bytes(), 8192u);
  EXPECT_EQ(client.CreateSegment(1, 8193).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(client.CreateSegment(1, 4096).ok());
  EXPECT_TRUE(client.CreateSegment(2, 2048).ok());
  const grpc::Status status = client.CreateSegment(3, 1);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("2 segments"));
}

TEST(SessionTest, ReleaseWantsKnownHandlesOnce) {
  ServerFixture fixture;
  RawClient client(fixture.socket_path());
  ASSERT_TRUE(client.Open().ok());
  ASSERT_TRUE(client.CreateSegment(1, 4096).ok());
  ASSERT_TRUE(client.CreateSegment(2, 4096).ok());
  EXPECT_FALSE(client.ReleaseSegments({1, 7}).ok());
  EXPECT_FALSE(client.ReleaseSegments({1, 1}).ok());
  v1::StreamPoint wrong;
  wrong.set_stream(64);
  wrong.set_sequence(1);
  EXPECT_FALSE(client.ReleaseSegments({1}, {wrong}).ok());
  EXPECT_EQ(client.MemoryInfo().session_bytes(), 8192u);
  EXPECT_TRUE(client.ReleaseSegments({1, 2}).ok());
  EXPECT_FALSE(client.ReleaseSegments({1}).ok());
  EXPECT_EQ(client.MemoryInfo().session_bytes(), 0u);
}

TEST(SessionTest, MapsSegmentsAndStaging) {
  ServerFixture fixture;
  RawClient client(fixture.socket_path());
  ASSERT_TRUE(client.Open().ok());
  ASSERT_TRUE(client.Attach());
  ASSERT_TRUE(client.CreateSegment(5, 5000, /*map=*/true).ok());
  auto memory = ReceiveSide(client.side());
  ASSERT_TRUE(memory.has_value());
  EXPECT_EQ(memory->message.kind, SideKind::kMemory);
  EXPECT_EQ(memory->message.handle, 5u);
  EXPECT_EQ(memory->message.size_bytes, 5000u);
  void* mapped = ::mmap(nullptr, 5000, PROT_READ | PROT_WRITE, MAP_SHARED,
                        memory->fd.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  std::memcpy(mapped, "hello", 5);

  RawStream stream(client, 0);
  ASSERT_TRUE(stream.ok());
  ASSERT_TRUE(stream.Send(ReadRecord(5, 0, 5), 1));
  const auto completion = stream.Receive();
  ASSERT_TRUE(completion.has_value());
  ASSERT_EQ(completion->reads_size(), 1);
  EXPECT_EQ(completion->reads(0).data(), "hello");
  ::munmap(mapped, 5000);

  ASSERT_TRUE(client.CreateStaging(6, 4096).ok());
  auto staging = ReceiveSide(client.side());
  ASSERT_TRUE(staging.has_value());
  EXPECT_EQ(staging->message.handle, 6u);
}

TEST(SessionTest, DeathOfTheClientGivesEverythingBack) {
  ServerFixture fixture;
  RawClient client(fixture.socket_path());
  RawClient other(fixture.socket_path());
  ASSERT_TRUE(client.Open().ok());
  ASSERT_TRUE(other.Open().ok());
  ASSERT_TRUE(client.Attach());
  ASSERT_TRUE(other.Attach());
  ASSERT_TRUE(client.CreateSegment(1, 1 << 20).ok());
  RawStream stream(client, 0);
  ASSERT_TRUE(stream.ok());
  EXPECT_EQ(fixture.server().attached_clients(), 2u);
  client.Die();
  EXPECT_TRUE(Eventually(
      [&] { return fixture.runtime().free_memory_bytes(0) == 64u << 20; }));
  // Its stream has been cancelled and its token is worth nothing.
  EXPECT_FALSE(stream.Receive().has_value());
  EXPECT_EQ(client.CreateSegment(2, 4096).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(client.page()->dead.load(), 1u);
  EXPECT_EQ(other.page()->dead.load(), 0u);
  EXPECT_TRUE(other.CreateSegment(1, 4096).ok());
  EXPECT_EQ(fixture.server().attached_clients(), 1u);
}

TEST(SessionTest, WithoutSideConnectionEndsWithItsLastStream) {
  ServerFixture fixture;
  RawClient client(fixture.socket_path());
  ASSERT_TRUE(client.Open().ok());
  ASSERT_TRUE(client.CreateSegment(1, 4096).ok());
  {
    RawStream first(client, 0), second(client, 1);
    ASSERT_TRUE(first.ok() && second.ok());
    ASSERT_TRUE(first.Finish().ok());
    EXPECT_TRUE(client.CreateSegment(2, 4096).ok());
    ASSERT_TRUE(second.Finish().ok());
  }
  EXPECT_TRUE(
      Eventually([&] { return fixture.Count(Counter::kSessionsEnded) == 1; }));
  EXPECT_EQ(fixture.runtime().free_memory_bytes(0), 64u << 20);
}

TEST(SessionTest, NeverUsedEndsAfterTheGrace) {
  ServerFixture fixture({}, [](ServerOptions& options) {
    options.sessions.grace = std::chrono::milliseconds(1);
  });
  RawClient client(fixture.socket_path());
  ASSERT_TRUE(client.Open().ok());
  EXPECT_TRUE(Eventually(
      [&] { return fixture.Count(Counter::kSessionsExpired) == 1; }));
}

TEST(SessionTest, AdminSeesSessionsAndCounters) {
  ServerFixture fixture;
  RawClient client(fixture.socket_path());
  ASSERT_TRUE(client.Open().ok());
  ASSERT_TRUE(client.CreateSegment(1, 4096).ok());
  {
    grpc::ClientContext context;
    v1::ListSessionsResponse sessions;
    ASSERT_TRUE(client.admin().ListSessions(&context, {}, &sessions).ok());
    ASSERT_EQ(sessions.sessions_size(), 1);
    EXPECT_EQ(sessions.sessions(0).client_name(), "raw");
    EXPECT_EQ(sessions.sessions(0).pid(), ::getpid());
    EXPECT_EQ(sessions.sessions(0).memory_bytes(), 4096u);
    EXPECT_EQ(sessions.sessions(0).user_memory_bytes(), 4096u);
    EXPECT_EQ(sessions.sessions(0).weight(), 1u);
    EXPECT_EQ(sessions.sessions(0).streams_limit(), 64u);
  }
  {
    grpc::ClientContext context;
    v1::GetStatusResponse status;
    ASSERT_TRUE(client.admin().GetStatus(&context, {}, &status).ok());
    EXPECT_EQ(status.sessions(), 1u);
    EXPECT_EQ(status.runtime(), "fake");
  }
  grpc::ClientContext context;
  v1::GetCountersResponse counters;
  ASSERT_TRUE(client.admin().GetCounters(&context, {}, &counters).ok());
  EXPECT_EQ(static_cast<size_t>(counters.counters_size()), kNumCounters);
  bool found = false;
  for (const auto& counter : counters.counters()) {
    EXPECT_FALSE(counter.doc().empty());
    if (counter.name() != "sessions_opened") continue;
    found = true;
    EXPECT_EQ(counter.value(), 1);
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace tvarant
