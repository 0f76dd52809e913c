// The client library and a daemon over TCP: what must be right before anything
// is said, and what is said when it is not.

#include <cstdlib>
#include <fstream>
#include <string>

#include "client/remote_options.h"
#include "tests/integration/daemon_fixture.h"
#include "tests/integration/tcp_daemon.h"

namespace tvarant::client {
namespace {

constexpr char kToken[] = "a-token-of-24-characters";

std::string File(const std::string& name) {
  return CertificateFolder() + "/" + name;
}

// Connects with nothing but what the options say.
Status Connect(const std::string& endpoint, const RemoteOptions& remote,
               int timeout_ms = 10000) {
  for (const char* name :
       {"TVARANT_TLS_CA", "TVARANT_TLS_CERT", "TVARANT_TLS_KEY",
        "TVARANT_TOKEN", "TVARANT_TOKEN_FILE", "TVARANT_TLS_SERVER_NAME",
        "TVARANT_ALLOW_PLAIN_TCP"}) {
    ::unsetenv(name);
  }
  ConnectOptions options;
  options.endpoint = endpoint;
  options.connect_timeout_ms = timeout_ms;
  const Status status = ConnectRemote(options, remote).status();
  EXPECT_EQ(status.message().find('\n'), std::string::npos) << status.message();
  return status;
}

void ExpectError(const Status& status, Code code, const std::string& text) {
  EXPECT_EQ(status.code(), code) << status.message();
  EXPECT_NE(status.message().find(text), std::string::npos)
      << status.message() << "\nwant: " << text;
}

TEST(RemoteTest, MutualTls) {
  const auto daemon = StartTcpDaemon(64 << 20);
  const std::string& endpoint = daemon->endpoint();
  const RemoteOptions alice = {.ca_file = File("ca.pem"),
                               .cert_file = File("alice.pem"),
                               .key_file = File("alice.key")};
  EXPECT_STATUS_OK(Connect(endpoint, alice));
  EXPECT_STATUS_OK(Connect(
      "tcp://localhost:" + endpoint.substr(endpoint.rfind(':') + 1), alice));

  RemoteOptions wrong = alice;
  wrong.server_name = "elsewhere";
  ExpectError(Connect(endpoint, wrong), Code::kUnavailable, endpoint);
  ExpectError(Connect(endpoint, {.ca_file = File("ca.pem")}),
              Code::kUnavailable, "with neither TVARANT_TLS_CERT nor");
  // Nobody that the system trusts has signed the daemon's certificate.
  wrong = alice;
  wrong.ca_file.clear();
  ExpectError(Connect(endpoint, wrong), Code::kUnavailable, endpoint);
}

TEST(RemoteTest, Tokens) {
  std::ofstream(File("tokens")) << "alice " << kToken << "\n";
  std::ofstream(File("token")) << kToken << "\n";
  ASSERT_EQ(::system(("chmod 600 " + File("tokens")).c_str()), 0);
  const auto daemon = StartTcpDaemon(
      64 << 20, 0,
      {"--tls-cert=" + File("daemon.pem"), "--tls-key=" + File("daemon.key"),
       "--token-file=" + File("tokens")});
  const std::string& endpoint = daemon->endpoint();
  const std::string ca = File("ca.pem");
  EXPECT_STATUS_OK(Connect(endpoint, {.ca_file = ca, .token = kToken}));
  EXPECT_STATUS_OK(
      Connect(endpoint, {.ca_file = ca, .token_file = File("token")}));
  const std::string other = "not-a-token-of-theirs";
  const Status refused = Connect(endpoint, {.ca_file = ca, .token = other});
  ExpectError(refused, Code::kPermissionDenied, "refused (asked with a token)");
  EXPECT_EQ(refused.message().find(other), std::string::npos);
  ExpectError(Connect(endpoint, {.ca_file = ca}), Code::kPermissionDenied,
              "TVARANT_TOKEN");
}

TEST(RemoteTest, PlainTcp) {
  const auto daemon = StartTcpDaemon(64 << 20, 0, {"--allow-plain-tcp"});
  const RemoteOptions plain = {.allow_plain = true};
  EXPECT_STATUS_OK(Connect(daemon->endpoint(), plain));
  // Only where it is asked for, and never to another machine.
  EXPECT_EQ(Connect(daemon->endpoint(), {}).code(), Code::kUnavailable);
  ExpectError(Connect("tcp://192.0.2.1:7000", plain), Code::kInvalidArgument,
              "needs TLS");
}

TEST(RemoteTest, NamesFileAndVariable) {
  const std::string endpoint = "tcp://127.0.0.1:1";
  ExpectError(Connect(endpoint, {.ca_file = "/nonexistent/ca"}),
              Code::kInvalidArgument, "/nonexistent/ca");
  ExpectError(Connect(endpoint, {.cert_file = File("alice.pem")}),
              Code::kInvalidArgument, "TVARANT_TLS_KEY");
  std::ofstream(File("text")) << "no certificate";
  ExpectError(Connect(endpoint, {.ca_file = File("text")}),
              Code::kInvalidArgument, "PEM");
  ExpectError(Connect(endpoint, {.token = "two words"}), Code::kInvalidArgument,
              "TVARANT_TOKEN");
  ExpectError(Connect(endpoint, {.token_file = "/dev/zero"}),
              Code::kInvalidArgument, "no regular file");

  ConnectOptions options;
  options.endpoint = endpoint;
  ::setenv("TVARANT_TLS_CA", "/nonexistent/ca", 1);
  ExpectError(Session::Connect(options).status(), Code::kInvalidArgument,
              "TVARANT_TLS_CA=/nonexistent/ca");
  ::unsetenv("TVARANT_TLS_CA");
}

TEST(RemoteTest, NobodyThere) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string endpoint = "tcp://127.0.0.1:1";
  ExpectError(Connect(endpoint, {.ca_file = File("ca.pem")}),
              Code::kUnavailable, endpoint);
  ExpectError(Connect("tcp://name.invalid:7000", {}, 3000), Code::kUnavailable,
              "tcp://name.invalid:7000");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  for (const char* bad :
       {"tcp://", "tcp://host", "tcp://host:", "tcp://host:0", "tcp://:7",
        "tcp://host:65536", "tcp://::1:7", "tcp://ho st:7", "tcp://a/b:7"}) {
    EXPECT_EQ(Connect(bad, {}).code(), Code::kInvalidArgument) << bad;
  }
}

TEST(RemoteTest, ProxiesAreNotAsked) {
  const auto daemon = StartTcpDaemon(64 << 20);
  for (const char* name : {"http_proxy", "https_proxy", "grpc_proxy"}) {
    ::setenv(name, "http://127.0.0.1:1", 1);
  }
  EXPECT_STATUS_OK(
      Connect(daemon->endpoint(), {.ca_file = File("ca.pem"),
                                   .cert_file = File("alice.pem"),
                                   .key_file = File("alice.key")}));
  for (const char* name : {"http_proxy", "https_proxy", "grpc_proxy"}) {
    ::unsetenv(name);
  }
}

}  // namespace
}  // namespace tvarant::client
