// Peers over TCP: who is let in, as whom, and what they may not do.

#include "daemon/server/tcp_server.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>
#include <utility>

#include "daemon/server/admin_policy.h"
#include "daemon/server/remote_peers.h"
#include "daemon/server/server_test_util.h"

namespace tvarant {
namespace {

constexpr char kAliceToken[] = "alices-token-0123456789";
constexpr char kBobToken[] = "bobs-token-9876543210abc";

std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void Write(const std::string& path, const std::string& text,
           mode_t mode = 0600) {
  std::ofstream(path) << text;
  ::chmod(path.c_str(), mode);
}

// Two authorities; the daemon trusts the first.
class TcpServerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    files_ = new TempFolder;
    for (const char* authority : {"ours", "theirs"}) {
      const std::string command = "deploy/certificates.sh " + Path(authority) +
                                  " localhost,127.0.0.1 alice bob";
      ASSERT_EQ(::system(command.c_str()), 0);
    }
    Write(Path("tokens"), std::string("# user token\nalice ") + kAliceToken +
                              "\n\nbob " + kBobToken + "\n");
  }
  static void TearDownTestSuite() { delete files_; }

  static std::string Path(const std::string& name) {
    return files_->path() + "/" + name;
  }

  static TcpOptions Tls() {
    TcpOptions options;
    options.listen = {"127.0.0.1:0"};
    options.cert_file = Path("ours/daemon.pem");
    options.key_file = Path("ours/daemon.key");
    return options;
  }
  static TcpOptions MutualTls() {
    TcpOptions options = Tls();
    options.client_ca_file = Path("ours/ca.pem");
    return options;
  }
  static TcpOptions TokenTls() {
    TcpOptions options = Tls();
    options.token_file = Path("tokens");
    return options;
  }

  static grpc::SslCredentialsOptions Trusting(const std::string& authority) {
    grpc::SslCredentialsOptions tls;
    tls.pem_root_certs = Read(Path(authority + "/ca.pem"));
    return tls;
  }
  static grpc::SslCredentialsOptions As(const std::string& authority,
                                        const std::string& user) {
    grpc::SslCredentialsOptions tls = Trusting("ours");
    tls.pem_cert_chain = Read(Path(authority + "/" + user + ".pem"));
    tls.pem_private_key = Read(Path(authority + "/" + user + ".key"));
    return tls;
  }

  static TempFolder* files_;
};
TempFolder* TcpServerTest::files_ = nullptr;

std::unique_ptr<ServerFixture> Serve(const TcpOptions& tcp,
                                     uint64_t sessions_per_user = 128) {
  return std::make_unique<ServerFixture>(
      FakeRuntimeOptions{}, [&](ServerOptions& options) {
        options.tcp = tcp;
        options.users.others.limits[Limit::kUserSessions] = sessions_per_user;
      });
}

// A client over TCP.
class Peer {
 public:
  Peer(ServerFixture& fixture,
       const std::shared_ptr<grpc::ChannelCredentials>& credentials,
       std::string bearer = "")
      : request_(RawClient(fixture.socket_path()).ValidOpenRequest()),
        bearer_(std::move(bearer)) {
    const std::vector<std::string> endpoints = fixture.server().tcp_endpoints();
    EXPECT_EQ(endpoints.size(), 1u);
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channel_ = grpc::CreateCustomChannel(endpoints[0].substr(6), credentials,
                                         arguments);
    device_ = v1::DeviceService::NewStub(channel_);
  }
  Peer(ServerFixture& fixture, const grpc::SslCredentialsOptions& tls,
       std::string bearer = "")
      : Peer(fixture, grpc::SslCredentials(tls), std::move(bearer)) {}

  void Prepare(grpc::ClientContext* context, const std::string& token) const {
    context->set_deadline(std::chrono::system_clock::now() +
                          std::chrono::seconds(10));
    if (!bearer_.empty()) {
      context->AddMetadata("authorization", "Bearer " + bearer_);
    }
    if (!token.empty()) context->AddMetadata("tvarant-session-bin", token);
  }

  grpc::Status Open() {
    grpc::ClientContext context;
    Prepare(&context, "");
    v1::OpenSessionResponse response;
    const grpc::Status status =
        device_->OpenSession(&context, request_, &response);
    token_ = response.token();
    return status;
  }

  grpc::Status MemoryInfo(const std::string& token) {
    grpc::ClientContext context;
    Prepare(&context, token);
    v1::GetMemoryInfoResponse response;
    return device_->GetMemoryInfo(&context, {}, &response);
  }

  const std::string& token() const { return token_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

 private:
  v1::OpenSessionRequest request_;
  std::string bearer_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::DeviceService::Stub> device_;
  std::string token_;
};

std::string RemoteUsers(ServerFixture& fixture) {
  RawClient client(fixture.socket_path());
  grpc::ClientContext context;
  v1::ListSessionsResponse response;
  EXPECT_TRUE(client.admin().ListSessions(&context, {}, &response).ok());
  std::string users;
  for (const v1::SessionInfo& session : response.sessions()) {
    EXPECT_GE(session.uid(), int64_t{kFirstRemoteUid});
    EXPECT_FALSE(session.local());
    users += session.remote_user() + " ";
  }
  return users;
}

TEST_F(TcpServerTest, RefusesOptionsThatLetAnybodyIn) {
  TcpOptions nothing;
  EXPECT_TRUE(CheckTcpOptions(nothing).ok());
  EXPECT_TRUE(CheckTcpOptions(MutualTls()).ok());
  EXPECT_TRUE(CheckTcpOptions(TokenTls()).ok());
  const auto refused = [](TcpOptions options, const char* text) {
    const absl::Status status = CheckTcpOptions(options);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_NE(std::string(status.message()).find(text), std::string::npos)
        << status;
  };
  refused(Tls(), "would let anybody in");
  TcpOptions plain;
  plain.listen = {"127.0.0.1:0"};
  refused(plain, "needs TLS");
  plain.token_file = Path("tokens");
  refused(plain, "needs TLS");
  TcpOptions half = MutualTls();
  half.key_file.clear();
  refused(half, "set together");
  for (const char* bad : {"", "host", "host:", ":1", "host:x", "host:65536",
                          "::1:5", "[::1]", "1.2.3.4:-1"}) {
    TcpOptions options = MutualTls();
    options.listen = {bad};
    refused(options, "HOST:PORT");
  }
}

TEST_F(TcpServerTest, PlainTcpIsForLoopback) {
  TcpOptions options;
  options.allow_plain = true;
  options.listen = {"127.0.0.1:0"};
  auto fixture = Serve(options);
  Peer peer(*fixture, grpc::InsecureChannelCredentials());
  EXPECT_TRUE(peer.Open().ok());
  EXPECT_EQ(RemoteUsers(*fixture), "plain ");

  FakeRuntime runtime{FakeRuntimeOptions{}};
  TempFolder folder;
  ServerOptions open;
  open.listen = {"unix:" + folder.path() + "/s"};
  open.tcp = options;
  open.tcp.listen = {"0.0.0.0:0"};
  const auto server = Server::Start(std::move(open), runtime);
  EXPECT_TRUE(absl::IsInvalidArgument(server.status())) << server.status();
}

TEST_F(TcpServerTest, ACertificateNamesTheUser) {
  auto fixture = Serve(MutualTls());
  Peer alice(*fixture, As("ours", "alice"));
  EXPECT_TRUE(alice.Open().ok());
  EXPECT_EQ(RemoteUsers(*fixture), "alice ");
  EXPECT_TRUE(alice.MemoryInfo(alice.token()).ok());

  // A session is its user's, whatever connection shows the token.
  Peer bob(*fixture, As("ours", "bob"));
  EXPECT_EQ(bob.MemoryInfo(alice.token()).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  Peer alice_again(*fixture, As("ours", "alice"));
  EXPECT_TRUE(alice_again.MemoryInfo(alice.token()).ok());
  RawClient local(fixture->socket_path());
  local.set_token(alice.token());
  const auto context = local.Context();
  v1::GetMemoryInfoResponse response;
  EXPECT_EQ(
      local.device().GetMemoryInfo(context.get(), {}, &response).error_code(),
      grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(TcpServerTest, RefusesWrongCertificates) {
  auto fixture = Serve(MutualTls());
  // None; one of another authority; a daemon that the client does not trust.
  EXPECT_EQ(Peer(*fixture, Trusting("ours")).Open().error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(Peer(*fixture, As("theirs", "alice")).Open().error_code(),
            grpc::StatusCode::UNAVAILABLE);
  grpc::SslCredentialsOptions distrusting = As("ours", "alice");
  distrusting.pem_root_certs = Read(Path("theirs/ca.pem"));
  EXPECT_EQ(Peer(*fixture, distrusting).Open().error_code(),
            grpc::StatusCode::UNAVAILABLE);
  // No TLS, and a token that nobody asked for.
  EXPECT_EQ(Peer(*fixture, grpc::InsecureChannelCredentials(), kAliceToken)
                .Open()
                .error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(RemoteUsers(*fixture), "");
  EXPECT_TRUE(Peer(*fixture, As("ours", "alice")).Open().ok());
}

TEST_F(TcpServerTest, ATokenNamesTheUser) {
  auto fixture = Serve(TokenTls());
  Peer alice(*fixture, Trusting("ours"), kAliceToken);
  EXPECT_TRUE(alice.Open().ok());
  EXPECT_EQ(RemoteUsers(*fixture), "alice ");
  EXPECT_TRUE(alice.MemoryInfo(alice.token()).ok());
  // Each call must bring it.
  for (const char* wrong :
       {"", "x", "alices-token-012345678", "alices-token-01234567890"}) {
    Peer other(*fixture, Trusting("ours"), wrong);
    EXPECT_EQ(other.Open().error_code(), grpc::StatusCode::UNAUTHENTICATED);
    EXPECT_EQ(other.MemoryInfo(alice.token()).error_code(),
              grpc::StatusCode::UNAUTHENTICATED);
  }
  Peer bob(*fixture, Trusting("ours"), kBobToken);
  EXPECT_EQ(bob.MemoryInfo(alice.token()).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(TcpServerTest, CertificateOrToken) {
  TcpOptions options = MutualTls();
  options.token_file = Path("tokens");
  auto fixture = Serve(options);
  EXPECT_TRUE(Peer(*fixture, As("ours", "alice")).Open().ok());
  EXPECT_TRUE(Peer(*fixture, Trusting("ours"), kBobToken).Open().ok());
  EXPECT_EQ(Peer(*fixture, Trusting("ours")).Open().error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  // A wrong certificate is none the better for a right token.
  EXPECT_EQ(
      Peer(*fixture, As("theirs", "alice"), kAliceToken).Open().error_code(),
      grpc::StatusCode::UNAVAILABLE);
}

TEST_F(TcpServerTest, LimitsHoldByUser) {
  auto fixture = Serve(TokenTls(), /*sessions_per_user=*/1);
  Peer alice(*fixture, Trusting("ours"), kAliceToken);
  EXPECT_TRUE(alice.Open().ok());
  EXPECT_EQ(alice.Open().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  Peer bob(*fixture, Trusting("ours"), kBobToken);
  EXPECT_TRUE(bob.Open().ok());
}

TEST_F(TcpServerTest, NobodySteersFromAfar) {
  auto fixture = Serve(MutualTls());
  Peer alice(*fixture, As("ours", "alice"));
  const auto admin = v1::AdminService::NewStub(alice.channel());
  grpc::ClientContext context;
  v1::GetStatusResponse response;
  EXPECT_EQ(admin->GetStatus(&context, {}, &response).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);

  const auto policy = AdminPolicy::Create("");
  ASSERT_TRUE(policy.ok());
  PeerCredentials root;
  root.uid = 0;
  EXPECT_TRUE(policy->Check(root).ok());
  root.remote_user = "root";
  EXPECT_TRUE(absl::IsPermissionDenied(policy->Check(root)));
}

TEST_F(TcpServerTest, OneDaemonHasAPort) {
  auto fixture = Serve(MutualTls());
  FakeRuntime runtime{FakeRuntimeOptions{}};
  TempFolder folder;
  ServerOptions second;
  second.listen = {"unix:" + folder.path() + "/s"};
  second.tcp = MutualTls();
  second.tcp.listen = {fixture->server().tcp_endpoints()[0].substr(6)};
  EXPECT_TRUE(
      absl::IsUnavailable(Server::Start(std::move(second), runtime).status()));
}

TEST_F(TcpServerTest, RefusesFilesThatAreNoKeys) {
  FakeRuntime runtime{FakeRuntimeOptions{}};
  TempFolder folder;
  const auto start = [&](const TcpOptions& tcp) {
    ServerOptions options;
    options.listen = {"unix:" + folder.path() + "/s"};
    options.tcp = tcp;
    const absl::Status status =
        Server::Start(std::move(options), runtime).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  TcpOptions options = MutualTls();
  options.cert_file = Path("absent");
  EXPECT_NE(start(options).find(Path("absent")), std::string::npos);
  options = MutualTls();
  options.key_file = Path("theirs/daemon.key");
  EXPECT_NE(start(options).find("a certificate and its key"),
            std::string::npos);
  Write(Path("open.key"), Read(Path("ours/daemon.key")), 0644);
  options.key_file = Path("open.key");
  EXPECT_NE(start(options).find("chmod"), std::string::npos);
  Write(Path("text"), "no certificate");
  options = MutualTls();
  options.client_ca_file = Path("text");
  EXPECT_NE(start(options).find("PEM"), std::string::npos);
}

TEST_F(TcpServerTest, RefusesTokenFiles) {
  const auto create = [](const std::string& text, mode_t mode = 0600) {
    Write(Path("bad"), text, mode);
    return RemotePeers::Create({.token_file = Path("bad"), .is_plain = false})
        .status();
  };
  EXPECT_TRUE(create("a 0123456789abcdef\n").ok());
  for (const char* bad :
       {"", "# nothing\n", "a\n", "a short\n", "a 0123456789abcdef more\n",
        "a 0123456789abcdef\nb 0123456789abcdef\n",
        "a 0123456789abcde\x01\n"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(create(bad))) << bad;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(create("a 0123456789abcdef\n", 0644)));
  EXPECT_TRUE(absl::IsInvalidArgument(create(std::string((1 << 20) + 1, '#'))));
}

}  // namespace
}  // namespace tvarant
