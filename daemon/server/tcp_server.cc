#include "daemon/server/tcp_server.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "daemon/server/remote_peers.h"
#include "grpc/support/log.h"
#include "proto/base/logging.h"
#include "proto/base/status_macros.h"
#include "proto/base/unique_fd.h"
#include "proto/wire/bulk.h"
#include "proto/wire/channel.h"
#include "proto/wire/shared_page.h"

namespace tvarant {
namespace {

constexpr size_t kMaxPemBytes = 1 << 20;
constexpr int kHandshakeTimeoutMs = 10000;

struct HostPort {
  std::string host;
  std::string port;
};

absl::StatusOr<HostPort> Split(const std::string& address) {
  const size_t colon = address.rfind(':');
  HostPort result;
  if (colon != std::string::npos) {
    result.host = address.substr(0, colon);
    result.port = address.substr(colon + 1);
  }
  const bool is_bracketed = result.host.size() > 2 &&
                            result.host.front() == '[' &&
                            result.host.back() == ']';
  if (is_bracketed) result.host = result.host.substr(1, result.host.size() - 2);
  const bool has_port =
      !result.port.empty() && result.port.size() <= 5 &&
      result.port.find_first_not_of("0123456789") == std::string::npos &&
      std::stoi(result.port) <= 65535;
  if (result.host.empty() || !has_port ||
      (!is_bracketed && result.host.find(':') != std::string::npos)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", address, "\" is not of the form HOST:PORT or [ADDRESS]:PORT"));
  }
  return result;
}

bool IsLoopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(address);
    return (ntohl(in.sin_addr.s_addr) >> 24) == 127;
  }
  if (address.sa_family == AF_INET6) {
    const auto& in = reinterpret_cast<const sockaddr_in6&>(address);
    return IN6_IS_ADDR_LOOPBACK(&in.sin6_addr);
  }
  return false;
}

// That all addresses of the host can be bound, and are loopback if asked. gRPC
// itself says only that something did not work.
absl::Status CheckAddress(const std::string& address, bool must_be_loopback) {
  ASSIGN_OR_RETURN(const HostPort parts, Split(address));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error =
      ::getaddrinfo(parts.host.c_str(), parts.port.c_str(), &hints, &found);
  if (error != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("listen-tcp ", address, ": ", ::gai_strerror(error)));
  }
  absl::Cleanup free = [found] { ::freeaddrinfo(found); };
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    if (must_be_loopback && !IsLoopback(*at->ai_addr)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "listen-tcp ", address,
          ": without TLS only loopback addresses may be served; set tls-cert "
          "and tls-key"));
    }
    base::UniqueFd fd(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd.ok()) continue;
    const int on = 1;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (::bind(fd.get(), at->ai_addr, at->ai_addrlen) != 0) {
      return absl::UnavailableError(absl::StrCat("can't listen at ", address,
                                                 ": ", std::strerror(errno)));
    }
  }
  return absl::OkStatus();
}

// gRPC tells of each handshake that fails, which strangers can make happen.
void LogForGrpc(gpr_log_func_args* args) {
  static base::LogLimiter limiter(10, 1.0);
  if (args->severity == GPR_LOG_SEVERITY_ERROR && limiter.Allow()) {
    spdlog::warn("event=grpc error={}", base::LogValue(args->message));
  }
}

absl::StatusOr<std::string> ReadPem(const std::string& path, bool is_secret) {
  ASSIGN_OR_RETURN(std::string text,
                   ReadSmallFile(path, kMaxPemBytes, is_secret));
  if (text.find("-----BEGIN ") == std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("file ", path, " has nothing in PEM format"));
  }
  return text;
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeCredentials(
    const TcpOptions& options) {
  if (options.is_plain()) return grpc::InsecureServerCredentials();
  // With tokens as well, a certificate may be left out; one that is shown must
  // be valid all the same.
  grpc::SslServerCredentialsOptions tls(
      options.client_ca_file.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
      : options.token_file.empty()
          ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
          : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  ASSIGN_OR_RETURN(std::string key, ReadPem(options.key_file, true));
  ASSIGN_OR_RETURN(std::string cert, ReadPem(options.cert_file, false));
  tls.pem_key_cert_pairs.push_back({std::move(key), std::move(cert)});
  if (!options.client_ca_file.empty()) {
    ASSIGN_OR_RETURN(tls.pem_root_certs,
                     ReadPem(options.client_ca_file, false));
  }
  return grpc::SslServerCredentials(tls);
}

}  // namespace

absl::Status CheckTcpOptions(const TcpOptions& options) {
  if (options.listen.empty()) return absl::OkStatus();
  for (const std::string& address : options.listen) {
    RETURN_IF_ERROR(Split(address).status());
  }
  if (options.cert_file.empty() != options.key_file.empty()) {
    return absl::InvalidArgumentError(
        "tls-cert and tls-key must be set together");
  }
  if (options.is_plain()) {
    if (options.client_ca_file.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "tls-client-ca is set without tls-cert and tls-key");
  }
  if (options.cert_file.empty()) {
    return absl::InvalidArgumentError(
        "listen-tcp needs TLS: set tls-cert and tls-key (or, on a loopback "
        "address, --allow-plain-tcp)");
  }
  if (options.client_ca_file.empty() && options.token_file.empty()) {
    return absl::InvalidArgumentError(
        "listen-tcp would let anybody in: set tls-client-ca or token-file");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<TcpServer>> TcpServer::Start(
    const TcpOptions& options, grpc::Service& service, uint64_t max_threads) {
  RETURN_IF_ERROR(CheckTcpOptions(options));
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::ServerCredentials> credentials,
                   MakeCredentials(options));
  gpr_set_log_function(LogForGrpc);
  grpc::ServerBuilder builder;
  grpc::ResourceQuota quota("tvarantd-tcp");
  quota.SetMaxThreads(static_cast<int>(max_threads));
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             kMaxStreamsPerSession + 36);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES,
                             kStreamWindowBytes);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Or a second daemon would take half of the first one's connections.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             kHandshakeTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS,
                             kServerKeepaliveTimeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             kServerKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder.RegisterService(&service);
  std::deque<int> ports;  // gRPC keeps their addresses until it has started
  for (const std::string& address : options.listen) {
    RETURN_IF_ERROR(CheckAddress(address, options.is_plain()));
    builder.AddListeningPort(address, credentials, &ports.emplace_back(0));
  }
  std::unique_ptr<TcpServer> server(new TcpServer);
  server->server_ = builder.BuildAndStart();
  for (const int port : ports) {
    if (server->server_ != nullptr && port != 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "can't serve TCP: ", options.cert_file, " and ", options.key_file,
        " must be a certificate and its key",
        options.client_ca_file.empty()
            ? ""
            : absl::StrCat(", ", options.client_ca_file, " certificates")));
  }
  for (size_t i = 0; i < ports.size(); ++i) {
    const std::string& address = options.listen[i];
    server->endpoints_.push_back(absl::StrCat(
        "tcp://", address.substr(0, address.rfind(':') + 1), ports[i]));
  }
  return server;
}

void TcpServer::Shutdown(std::chrono::milliseconds timeout) {
  server_->Shutdown(std::chrono::system_clock::now() + timeout);
  server_->Wait();
}

}  // namespace tvarant
