// What an operator asks and does, and who may; health and reflection.

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/server/admin_policy.h"
#include "daemon/server/server_test_util.h"
#include "proto/base/mutex.h"

namespace tvarant {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<grpc::ClientContext> Context() {
  auto context = std::make_unique<grpc::ClientContext>();
  context->set_deadline(std::chrono::system_clock::now() +
                        std::chrono::seconds(20));
  return context;
}

v1::ListSessionsResponse Sessions(RawClient& client) {
  v1::ListSessionsResponse response;
  EXPECT_TRUE(
      client.admin()
          .ListSessions(Context().get(), v1::ListSessionsRequest(), &response)
          .ok());
  return response;
}

TEST(AdminPolicyTest, RootAndTheDaemonsUserMay) {
  const auto policy = AdminPolicy::Create("");
  ASSERT_TRUE(policy.ok());
  EXPECT_TRUE(policy->Check({1, 0, 0}).ok());
  EXPECT_TRUE(policy->Check({1, ::geteuid(), 12345}).ok());
  const absl::Status status = policy->Check({1, 54321, 54321});
  EXPECT_TRUE(absl::IsPermissionDenied(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("user 54321"));
}

TEST(AdminPolicyTest, MembersOfTheGroupMay) {
  // "daemon" is a group, and the first one of the user "daemon", everywhere.
  const auto policy = AdminPolicy::Create("daemon");
  ASSERT_TRUE(policy.ok());
  const gid_t gid = *GroupId("daemon");
  EXPECT_TRUE(policy->Check({1, 54321, gid}).ok());
  EXPECT_TRUE(policy->Check({1, /*uid=*/1, 54321}).ok());
  EXPECT_TRUE(absl::IsPermissionDenied(policy->Check({1, 54321, 54321})));
  EXPECT_TRUE(absl::IsInvalidArgument(
      AdminPolicy::Create("no-such-group-here").status()));
}

TEST(AdminTest, EndsOneSessionAndNoOther) {
  ServerFixture fixture;
  RawClient victim(fixture.socket_path()), other(fixture.socket_path());
  for (RawClient* client : {&victim, &other}) {
    ASSERT_TRUE(client->Open().ok());
    ASSERT_TRUE(client->Attach());
  }
  const auto sessions = Sessions(other);
  ASSERT_EQ(sessions.sessions_size(), 2);
  EXPECT_LT(sessions.sessions(0).id(), sessions.sessions(1).id());
  EXPECT_TRUE(sessions.sessions(0).local());
  EXPECT_EQ(sessions.sessions(0).pid(), ::getpid());
  v1::EndSessionRequest request;
  v1::EndSessionResponse response;
  request.set_id(sessions.sessions(0).id());
  EXPECT_TRUE(
      other.admin().EndSession(Context().get(), request, &response).ok());
  EXPECT_EQ(victim.page()->dead.load(), 1u);
  EXPECT_EQ(victim.CreateSegment(1, 64).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_TRUE(other.CreateSegment(1, 64).ok());
  EXPECT_EQ(other.admin()
                .EndSession(Context().get(), request, &response)
                .error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST(AdminTest, DrainingRefusesNewSessionsOnly) {
  ServerFixture fixture;
  RawClient old(fixture.socket_path()), late(fixture.socket_path());
  ASSERT_TRUE(old.Open().ok());
  v1::SetDrainingRequest request;
  v1::SetDrainingResponse response;
  request.set_draining(true);
  ASSERT_TRUE(
      old.admin().SetDraining(Context().get(), request, &response).ok());
  EXPECT_EQ(response.sessions(), 1u);
  const grpc::Status refused = late.Open();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(refused.error_message(), HasSubstr("drained"));
  EXPECT_TRUE(old.CreateSegment(1, 64).ok());
  v1::GetStatusResponse status;
  ASSERT_TRUE(old.admin()
                  .GetStatus(Context().get(), v1::GetStatusRequest(), &status)
                  .ok());
  EXPECT_TRUE(status.draining());
  request.set_draining(false);
  ASSERT_TRUE(
      old.admin().SetDraining(Context().get(), request, &response).ok());
  EXPECT_TRUE(late.Open().ok());
}

TEST(AdminTest, ListsDevices) {
  ServerFixture fixture;
  RawClient client(fixture.socket_path());
  v1::ListDevicesResponse response;
  ASSERT_TRUE(
      client.admin()
          .ListDevices(Context().get(), v1::ListDevicesRequest(), &response)
          .ok());
  ASSERT_EQ(response.devices_size(), 1);
  EXPECT_GT(response.devices(0).total_bytes(), 0u);
  EXPECT_GT(response.devices(0).streams_at_a_time(), 0u);
}

TEST(AdminTest, ShowsAndClearsTheCache) {
  KernelCacheInfo info;
  info.entries = {{"row_max-abc", 4096, 1700000000}};
  ServerFixture fixture({.kernel_cache = info});
  RawClient client(fixture.socket_path());
  const auto list = [&client] {
    v1::ListCacheResponse response;
    EXPECT_TRUE(
        client.admin()
            .ListCache(Context().get(), v1::ListCacheRequest(), &response)
            .ok());
    return response;
  };
  ASSERT_EQ(list().entries_size(), 1);
  EXPECT_EQ(list().entries(0).key(), "row_max-abc");
  EXPECT_EQ(list().entries(0).name(), "row_max");
  EXPECT_EQ(list().entries(0).last_used_s(), 1700000000);
  v1::ClearCacheResponse cleared;
  ASSERT_TRUE(
      client.admin()
          .ClearCache(Context().get(), v1::ClearCacheRequest(), &cleared)
          .ok());
  EXPECT_EQ(cleared.entries(), 1u);
  EXPECT_EQ(cleared.freed_bytes(), 4096u);
  EXPECT_EQ(list().entries_size(), 0);
}

TEST(AdminTest, ARuntimeWithoutACacheHasAnEmptyOne) {
  ServerFixture fixture;
  RawClient client(fixture.socket_path());
  v1::ListCacheResponse list;
  EXPECT_TRUE(client.admin()
                  .ListCache(Context().get(), v1::ListCacheRequest(), &list)
                  .ok());
  EXPECT_EQ(list.entries_size(), 0);
  v1::ClearCacheResponse cleared;
  EXPECT_TRUE(
      client.admin()
          .ClearCache(Context().get(), v1::ClearCacheRequest(), &cleared)
          .ok());
  EXPECT_EQ(cleared.entries(), 0u);
}

TEST(AdminTest, TracesWhatStreamsDoFromNowOn) {
  ServerFixture fixture;
  RawClient client(fixture.socket_path());
  ASSERT_TRUE(client.Open().ok());
  ASSERT_TRUE(client.CreateSegment(1, 4096).ok());
  RawStream stream(client, 2);
  ASSERT_TRUE(stream.Send(FillRecord(1, 4) + ReadRecord(1, 0, 16), 2));
  ASSERT_TRUE(stream.Receive().has_value());
  auto context = Context();
  const auto reader = client.admin().Trace(context.get(), v1::TraceRequest());
  v1::TraceResponse part;
  ASSERT_TRUE(reader->Read(&part));  // it has begun
  EXPECT_EQ(part.events_size(), 0);
  ASSERT_TRUE(stream.Send(FillRecord(1, 8) + ReadRecord(1, 0, 32), 2));
  ASSERT_TRUE(stream.Receive().has_value());
  std::vector<v1::TraceEvent> events;
  while (events.size() < 3 && reader->Read(&part)) {
    events.insert(events.end(), part.events().begin(), part.events().end());
  }
  context->TryCancel();
  reader->Finish();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].kind(), v1::TraceEvent::KIND_BATCH);
  EXPECT_EQ(events[0].sequence(), 3u);
  EXPECT_EQ(events[1].kind(), v1::TraceEvent::KIND_COMMAND);
  EXPECT_EQ(events[1].name(), "fill");
  EXPECT_EQ(events[2].name(), "download");
  EXPECT_EQ(events[2].sequence(), 4u);
  for (const v1::TraceEvent& event : events) {
    EXPECT_EQ(event.stream(), 2u);
    EXPECT_GE(event.end_ns(), event.start_ns());
  }
  EXPECT_LE(events[0].end_ns(), events[1].start_ns());
}

TEST(AdminTest, TracesAreFew) {
  ServerFixture fixture;
  RawClient client(fixture.socket_path());
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::TraceResponse>>> readers;
  v1::TraceResponse part;
  for (int i = 0; i < 4; ++i) {
    contexts.push_back(Context());
    readers.push_back(
        client.admin().Trace(contexts.back().get(), v1::TraceRequest()));
    ASSERT_TRUE(readers.back()->Read(&part));
  }
  auto context = Context();
  const auto fifth = client.admin().Trace(context.get(), v1::TraceRequest());
  EXPECT_FALSE(fifth->Read(&part));
  EXPECT_EQ(fifth->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  for (size_t i = 0; i < readers.size(); ++i) {
    contexts[i]->TryCancel();
    readers[i]->Finish();
  }
  // The places are free again.
  EXPECT_TRUE(Eventually([&] {
    auto again = Context();
    const auto reader = client.admin().Trace(again.get(), v1::TraceRequest());
    const bool begun = reader->Read(&part);
    again->TryCancel();
    reader->Finish();
    return begun;
  }));
}

TEST(AdminTest, TheGateOfAStuckDeviceDoesNotOpen) {
  base::Mutex device;
  std::atomic<bool> inside{false}, passed{false};
  ServerFixture fixture(
      {.on_launch =
           [&](const ResolvedLaunch&) {
             inside.store(true);
             base::MutexLock lock(device);
             return absl::OkStatus();
           }},
      [](ServerOptions& options) { options.device_width = 1; });
  fixture.server().PassGate();  // nothing runs: it is open
  RawClient client(fixture.socket_path());
  ASSERT_TRUE(client.Open().ok());
  ASSERT_TRUE(client.CreateSegment(1, 4096).ok());
  RawStream stream(client, 0);
  std::thread probe;
  {
    base::MutexLock lock(device);
    ASSERT_TRUE(stream.Send(FillRecord(1, 4), 1));
    ASSERT_TRUE(Eventually([&] { return inside.load(); }));
    probe = std::thread([&] {
      fixture.server().PassGate();
      passed.store(true);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(passed.load());
  }
  probe.join();
  EXPECT_TRUE(passed.load());
}

// A unary call by name, as a program without our generated code makes it.
std::string CallRaw(RawClient& client, const std::string& method,
                    const std::string& request) {
  grpc::GenericStub stub(client.channel());
  grpc::CompletionQueue queue;
  auto context = Context();
  const grpc::Slice slice(request);
  const grpc::ByteBuffer message(&slice, 1);
  // Both kinds of call look alike to a client that sends one message.
  const auto call = stub.PrepareCall(context.get(), method, &queue);
  grpc::ByteBuffer answer;
  grpc::Status status;
  const auto wait = [&queue] {
    void* tag;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  call->StartCall(nullptr);
  if (!wait()) return "";
  call->WriteLast(message, grpc::WriteOptions(), nullptr);
  if (!wait()) return "";
  call->Read(&answer, nullptr);
  const bool got = wait();
  call->Finish(&status, nullptr);
  wait();
  queue.Shutdown();
  if (!got || !status.ok()) return "";
  std::vector<grpc::Slice> slices;
  answer.Dump(&slices);
  std::string text;
  for (const grpc::Slice& part : slices) {
    text.append(reinterpret_cast<const char*>(part.begin()), part.size());
  }
  return text;
}

constexpr char kHealthCheck[] = "/grpc.health.v1.Health/Check";

TEST(HealthTest, ServesAndDoesNotWhileDraining) {
  ServerFixture fixture;
  RawClient client(fixture.socket_path());
  const std::string serving("\x08\x01", 2), not_serving("\x08\x02", 2);
  const std::string service = "tvarant.v1.DeviceService";
  const std::string of_service =
      std::string("\x0a", 1) + static_cast<char>(service.size()) + service;
  EXPECT_EQ(CallRaw(client, kHealthCheck, ""), serving);
  EXPECT_EQ(CallRaw(client, kHealthCheck, of_service), serving);
  v1::SetDrainingRequest request;
  v1::SetDrainingResponse response;
  request.set_draining(true);
  ASSERT_TRUE(
      client.admin().SetDraining(Context().get(), request, &response).ok());
  EXPECT_EQ(CallRaw(client, kHealthCheck, ""), not_serving);
  EXPECT_EQ(CallRaw(client, kHealthCheck, of_service), not_serving);
}

TEST(ReflectionTest, ListsTheServices) {
  ServerFixture fixture;
  RawClient client(fixture.socket_path());
  // ServerReflectionRequest{list_services = "*"}
  const std::string answer = CallRaw(
      client, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
      std::string("\x3a\x01*", 3));
  EXPECT_THAT(answer, HasSubstr("tvarant.v1.DeviceService"));
  EXPECT_THAT(answer, HasSubstr("tvarant.v1.AdminService"));
  EXPECT_THAT(answer, HasSubstr("grpc.health.v1.Health"));
}

}  // namespace
}  // namespace tvarant
