// What strangers and faulty clients do to the socket.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "daemon/server/listening_socket.h"
#include "daemon/server/server_test_util.h"

namespace tvarant {
namespace {

using ::testing::HasSubstr;

void ExpectServes(ServerFixture& fixture) {
  RawClient client(fixture.socket_path());
  EXPECT_TRUE(client.Open().ok());
  EXPECT_TRUE(client.Close().ok());
}

TEST(ListenerTest, ForeignBytesAreClosed) {
  ServerFixture fixture;
  const std::vector<std::string> all = {"GET / HTTP/1.1\r\n\r\n",
                                        std::string(4096, '\xff'),
                                        "TVSX",
                                        "X",
                                        std::string(4, '\0'),
                                        "PRX"};
  for (const std::string& bytes : all) {
    base::UniqueFd fd = ConnectSocket(fixture.socket_path());
    ASSERT_TRUE(fd.ok());
    ASSERT_TRUE(SendAll(fd.get(), bytes.data(), bytes.size()));
    EXPECT_TRUE(IsClosedByPeer(fd.get()));
  }
  EXPECT_EQ(fixture.Count(Counter::kConnectionsForeign), all.size());
  ExpectServes(fixture);
}

TEST(ListenerTest, Http2PrefaceWithGarbageIsGrpcsAffair) {
  ServerFixture fixture;
  base::UniqueFd fd = ConnectSocket(fixture.socket_path());
  const std::string bytes =
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string(1000, '\xee');
  ASSERT_TRUE(SendAll(fd.get(), bytes.data(), bytes.size()));
  EXPECT_TRUE(IsClosedByPeer(fd.get()));
  ExpectServes(fixture);
}

TEST(ListenerTest, SilentAndHalfSpokenConnectionsExpire) {
  ServerFixture fixture({}, [](ServerOptions& options) {
    options.connections.decide_timeout = std::chrono::milliseconds(100);
  });
  const SideMessage attach = AttachMessage(std::string(32, 't'));
  for (const std::string& bytes :
       {std::string(), std::string("P"), std::string("TVS"),
        std::string(reinterpret_cast<const char*>(&attach), 63)}) {
    base::UniqueFd fd = ConnectSocket(fixture.socket_path());
    ASSERT_TRUE(fd.ok());
    ASSERT_TRUE(SendAll(fd.get(), bytes.data(), bytes.size()));
    EXPECT_TRUE(IsClosedByPeer(fd.get()));
  }
  EXPECT_EQ(fixture.Count(Counter::kConnectionsSilent), 4u);
  ExpectServes(fixture);
}

TEST(ListenerTest, StartsThatEndAreClosedAtOnce) {
  ServerFixture fixture({}, [](ServerOptions& options) {
    options.connections.decide_timeout = std::chrono::hours(1);
  });
  for (const char* bytes : {"", "P", "TVS"}) {
    base::UniqueFd fd = ConnectSocket(fixture.socket_path());
    ASSERT_TRUE(fd.ok());
    ASSERT_TRUE(SendAll(fd.get(), bytes, std::strlen(bytes)));
    ASSERT_EQ(::shutdown(fd.get(), SHUT_WR), 0);
    EXPECT_TRUE(IsClosedByPeer(fd.get()));
  }
  ExpectServes(fixture);
}

TEST(ListenerTest, UndecidedConnectionsAreFew) {
  ServerFixture fixture({}, [](ServerOptions& options) {
    options.connections.max_undecided = 2;
  });
  base::UniqueFd a = ConnectSocket(fixture.socket_path());
  base::UniqueFd b = ConnectSocket(fixture.socket_path());
  base::UniqueFd c = ConnectSocket(fixture.socket_path());
  EXPECT_TRUE(IsClosedByPeer(c.get()));
  a.reset();
  b.reset();
  EXPECT_TRUE(Eventually([&] {
    RawClient client(fixture.socket_path());
    return client.Open().ok();
  }));
}

TEST(ListenerTest, ConnectionsOfAUserAreLimitedAndForgotten) {
  ServerFixture fixture({}, [](ServerOptions& options) {
    options.users.others.limits[Limit::kUserConnections] = 2;
  });
  for (int round = 0; round < 3; ++round) {
    RawClient client(fixture.socket_path());
    ASSERT_TRUE(Eventually([&] { return client.Open().ok(); }));
    ASSERT_TRUE(client.Attach());
    base::UniqueFd third = ConnectSocket(fixture.socket_path());
    EXPECT_TRUE(IsClosedByPeer(third.get()));
  }
}

TEST(ListenerTest, AWrongTokenIsRefused) {
  ServerFixture fixture;
  RawClient client(fixture.socket_path());
  ASSERT_TRUE(client.Open().ok());
  std::string wrong = client.token();
  wrong[8] ^= 1;
  base::UniqueFd fd = ConnectSocket(fixture.socket_path());
  const SideMessage attach = AttachMessage(wrong);
  ASSERT_TRUE(SendAll(fd.get(), &attach, sizeof(attach)));
  const auto reply = ReceiveSide(fd.get());
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->message.kind, SideKind::kRefused);
  EXPECT_FALSE(reply->fd.ok());
  EXPECT_TRUE(IsClosedByPeer(fd.get()));
  EXPECT_TRUE(client.Attach());
}

TEST(ListenerTest, ASecondSideConnectionIsRefusedAndTheFirstStays) {
  ServerFixture fixture;
  RawClient client(fixture.socket_path());
  ASSERT_TRUE(client.Open().ok());
  ASSERT_TRUE(client.Attach());
  base::UniqueFd second = ConnectSocket(fixture.socket_path());
  const SideMessage attach = AttachMessage(client.token());
  ASSERT_TRUE(SendAll(second.get(), &attach, sizeof(attach)));
  const auto reply = ReceiveSide(second.get());
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->message.kind, SideKind::kRefused);
  EXPECT_TRUE(client.CreateSegment(1, 4096).ok());
}

TEST(ListenerTest, OtherMessagesEndTheSideConnectionAndTheSession) {
  ServerFixture fixture;
  RawClient client(fixture.socket_path());
  ASSERT_TRUE(client.Open().ok());
  ASSERT_TRUE(client.Attach());
  const SideMessage again = AttachMessage(client.token());
  ASSERT_TRUE(SendAll(client.side(), &again, sizeof(again)));
  EXPECT_TRUE(IsClosedByPeer(client.side()));
  EXPECT_TRUE(
      Eventually([&] { return fixture.Count(Counter::kSessionsEnded) == 1; }));

  SideMessage odd = AttachMessage(client.token());
  odd.version = 9;
  base::UniqueFd fd = ConnectSocket(fixture.socket_path());
  ASSERT_TRUE(SendAll(fd.get(), &odd, sizeof(odd)));
  EXPECT_TRUE(IsClosedByPeer(fd.get()));
  ExpectServes(fixture);
}

TEST(ListenerTest, ServesSeveralSockets) {
  TempFolder folder;
  ServerFixture fixture({}, [&](ServerOptions& options) {
    options.listen.push_back("unix:" + folder.path() + "/second");
  });
  ExpectServes(fixture);
  RawClient client(folder.path() + "/second");
  EXPECT_TRUE(client.Open().ok());
}

TEST(ListeningSocketTest, ParsesEndpoints) {
  EXPECT_EQ(*ListeningSocket::ParsePath("unix:/run/x"), "/run/x");
  EXPECT_EQ(*ListeningSocket::ParsePath("unix:///run/x"), "/run/x");
  EXPECT_EQ(*ListeningSocket::ParsePath("unix:x"), "x");
  EXPECT_TRUE(
      ListeningSocket::ParsePath("unix:/" + std::string(106, 'a')).ok());
  EXPECT_FALSE(
      ListeningSocket::ParsePath("unix:/" + std::string(107, 'a')).ok());
  EXPECT_FALSE(ListeningSocket::ParsePath("unix:").ok());
  EXPECT_FALSE(ListeningSocket::ParsePath("tcp:localhost:1").ok());
}

TEST(ListeningSocketTest, HasOneServerAtATime) {
  TempFolder folder;
  const std::string path = folder.path() + "/s";
  {
    auto first = ListeningSocket::Bind({.path = path, .mode = 0600});
    ASSERT_TRUE(first.ok()) << first.status();
    struct stat info;
    ASSERT_EQ(::lstat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    const auto second = ListeningSocket::Bind({.path = path});
    EXPECT_TRUE(absl::IsUnavailable(second.status()));
    EXPECT_THAT(std::string(second.status().message()),
                HasSubstr("process " + std::to_string(::getpid())));
    EXPECT_TRUE(ConnectSocket(path).ok());
  }
  // Both files are gone with it, and the path can be used again.
  struct stat info;
  EXPECT_NE(::lstat(path.c_str(), &info), 0);
  EXPECT_NE(::lstat((path + ".lock").c_str(), &info), 0);
  EXPECT_TRUE(ListeningSocket::Bind({.path = path}).ok());
}

TEST(ListeningSocketTest, ReplacesAStaleSocketOnly) {
  TempFolder folder;
  const std::string path = folder.path() + "/s";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  base::UniqueFd other(::socket(AF_UNIX, SOCK_STREAM, 0));
  ASSERT_EQ(::bind(other.get(), reinterpret_cast<sockaddr*>(&address),
                   sizeof(address)),
            0);
  ASSERT_EQ(::listen(other.get(), 1), 0);
  // Somebody without a lock serves it.
  EXPECT_TRUE(
      absl::IsUnavailable(ListeningSocket::Bind({.path = path}).status()));
  EXPECT_TRUE(ConnectSocket(path).ok());
  other.reset();
  EXPECT_TRUE(ListeningSocket::Bind({.path = path}).ok());
}

TEST(ListeningSocketTest, LeavesOtherFilesAlone) {
  TempFolder folder;
  const std::string path = folder.path() + "/file";
  std::ofstream(path) << "precious";
  EXPECT_TRUE(absl::IsFailedPrecondition(
      ListeningSocket::Bind({.path = path}).status()));
  std::string text;
  std::ifstream(path) >> text;
  EXPECT_EQ(text, "precious");
  EXPECT_FALSE(
      ListeningSocket::Bind({.path = folder.path() + "/no/such/folder"}).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(
      ListeningSocket::Bind(
          {.path = folder.path() + "/g", .group = "no-such-group-here"})
          .status()));
}

}  // namespace
}  // namespace tvarant
