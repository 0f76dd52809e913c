#include "client/remote.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "client/status_macros.h"
#include "proto/base/unique_fd.h"

namespace tvarant::client {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;
constexpr size_t kMaxTokenBytes = 4096;

// A value of the options or, where that is empty, of the environment, and what
// it is called in an error.
struct Setting {
  std::string value;
  std::string name;
};

Setting Find(const std::string& option, const char* variable) {
  if (!option.empty()) return {option, option};
  const char* value = std::getenv(variable);
  const std::string text = value == nullptr ? "" : value;
  return {text, std::string(variable) + "=" + text};
}

Status Invalid(const Setting& setting, const std::string& fault) {
  return Status(Code::kInvalidArgument, setting.name + ": " + fault);
}

Result<std::string> ReadFile(const Setting& setting) {
  const base::UniqueFd fd(::open(setting.value.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.ok()) {
    return Invalid(setting,
                   std::string("can't be read: ") + std::strerror(errno));
  }
  struct stat info;
  if (::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return Invalid(setting, "is no regular file");
  }
  std::string text(kMaxFileBytes + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got =
        ::read(fd.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return Invalid(setting,
                     std::string("can't be read: ") + std::strerror(errno));
    }
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  if (size > kMaxFileBytes) return Invalid(setting, "is larger than 1 MiB");
  text.resize(size);
  return text;
}

// Empty if it is not set.
Result<std::string> ReadPem(const Setting& setting) {
  if (setting.value.empty()) return std::string();
  Result<std::string> text = ReadFile(setting);
  if (text.ok() && text.value().find("-----BEGIN ") == std::string::npos) {
    return Invalid(setting, "has nothing in PEM format");
  }
  return text;
}

// "Bearer ..." or empty.
Result<std::string> ReadToken(const RemoteOptions& options) {
  Setting setting = Find(options.token, "TVARANT_TOKEN");
  // Never in an error, as it is a secret.
  setting.name = "TVARANT_TOKEN";
  std::string token = setting.value;
  if (token.empty()) {
    setting = Find(options.token_file, "TVARANT_TOKEN_FILE");
    if (setting.value.empty()) return std::string();
    Result<std::string> text = ReadFile(setting);
    if (!text.ok()) return text;
    token = text.value();
    const size_t begin = token.find_first_not_of(" \t\r\n");
    const size_t end = token.find_last_not_of(" \t\r\n");
    token = begin == std::string::npos ? std::string()
                                       : token.substr(begin, end + 1 - begin);
  }
  const bool is_printable = std::all_of(
      token.begin(), token.end(), [](char c) { return c > ' ' && c < '\x7f'; });
  if (token.empty() || token.size() > kMaxTokenBytes || !is_printable) {
    return Invalid(setting,
                   "is no token: 1 to 4096 printable characters, without "
                   "spaces");
  }
  return "Bearer " + token;
}

bool MayBePlain(const RemoteOptions& options) {
  if (options.allow_plain) return true;
  const char* value = std::getenv("TVARANT_ALLOW_PLAIN_TCP");
  return value != nullptr && std::strcmp(value, "1") == 0;
}

}  // namespace

Result<RemoteCredentials> RemoteCredentials::Load(
    const Endpoint& endpoint, const RemoteOptions& options) {
  RemoteCredentials result;
  Result<std::string> token = ReadToken(options);
  if (!token.ok()) return token.status();
  result.authorization_ = std::move(token.value());
  if (MayBePlain(options)) {
    if (!endpoint.is_loopback()) {
      return Status(Code::kInvalidArgument,
                    "TVARANT_ALLOW_PLAIN_TCP=1 is for loopback addresses: " +
                        endpoint.text() + " needs TLS");
    }
    result.is_plain_ = true;
    result.channel_ = grpc::InsecureChannelCredentials();
    return result;
  }
  const Setting ca = Find(options.ca_file, "TVARANT_TLS_CA");
  const Setting cert = Find(options.cert_file, "TVARANT_TLS_CERT");
  const Setting key = Find(options.key_file, "TVARANT_TLS_KEY");
  if (cert.value.empty() != key.value.empty()) {
    return Status(
        Code::kInvalidArgument,
        "TVARANT_TLS_CERT and TVARANT_TLS_KEY must be set together: " +
            (cert.value.empty() ? key.name : cert.name) + " is alone");
  }
  Result<std::string> ca_text = ReadPem(ca);
  if (!ca_text.ok()) return ca_text.status();
  Result<std::string> cert_text = ReadPem(cert);
  if (!cert_text.ok()) return cert_text.status();
  Result<std::string> key_text = ReadPem(key);
  if (!key_text.ok()) return key_text.status();
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = std::move(ca_text.value());  // empty: the system's
  tls.pem_cert_chain = std::move(cert_text.value());
  tls.pem_private_key = std::move(key_text.value());
  result.has_certificate_ = !tls.pem_cert_chain.empty();
  result.channel_ = grpc::SslCredentials(tls);
  result.server_name_ =
      Find(options.server_name, "TVARANT_TLS_SERVER_NAME").value;
  return result;
}

std::shared_ptr<grpc::Channel> RemoteCredentials::MakeChannel(
    const Endpoint& endpoint, grpc::ChannelArguments arguments) const {
  // A proxy is no way to this machine itself.
  if (endpoint.is_loopback()) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  if (!server_name_.empty()) arguments.SetSslTargetNameOverride(server_name_);
  return grpc::CreateCustomChannel("dns:///" + endpoint.address(), channel_,
                                   arguments);
}

void RemoteCredentials::AddTo(grpc::ClientContext* context) const {
  if (!authorization_.empty()) {
    context->AddMetadata("authorization", authorization_);
  }
}

const char* RemoteCredentials::Describe() const {
  if (is_plain_) return "without TLS";
  if (has_certificate_) {
    return authorization_.empty() ? "with a certificate"
                                  : "with a certificate and a token";
  }
  return authorization_.empty()
             ? "with neither TVARANT_TLS_CERT nor TVARANT_TOKEN"
             : "with a token";
}

}  // namespace tvarant::client
