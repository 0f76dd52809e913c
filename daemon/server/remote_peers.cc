#include "daemon/server/remote_peers.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/status_macros.h"
#include "proto/base/unique_fd.h"

namespace tvarant {
namespace {

constexpr size_t kMaxTokenFileBytes = 1 << 20;
constexpr size_t kMaxTokens = 4096;
constexpr size_t kMinTokenBytes = 16;
constexpr size_t kMaxTokenBytes = 4096;
constexpr size_t kMaxUserBytes = 256;
// Only who holds a certificate of ours or a token can make one.
constexpr size_t kMaxUsers = 1 << 16;
constexpr std::string_view kBearer = "Bearer ";

// Takes a time that depends on the lengths alone.
bool EqualInConstantTime(std::string_view a, std::string_view b) {
  unsigned char different = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    const char other = b.empty() ? '\0' : b[i % b.size()];
    different |= static_cast<unsigned char>(a[i] ^ other);
  }
  return different == 0;
}

bool IsPrintable(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return c > ' ' && c < '\x7f'; });
}

absl::Status BadFile(const std::string& path, const char* fault) {
  return absl::InvalidArgumentError(absl::StrCat("file ", path, " ", fault));
}

}  // namespace

absl::StatusOr<std::string> ReadSmallFile(const std::string& path,
                                          size_t max_bytes, bool is_secret) {
  const base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.ok()) {
    return BadFile(
        path, absl::StrCat("can't be read: ", std::strerror(errno)).c_str());
  }
  struct stat info;
  if (::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return BadFile(path, "is no regular file");
  }
  if (is_secret && (info.st_mode & S_IRWXO) != 0) {
    return BadFile(path, "is open to every user: chmod o-rwx");
  }
  std::string text(max_bytes + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got =
        ::read(fd.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return BadFile(path, "can't be read");
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  if (size > max_bytes) return BadFile(path, "is too large");
  text.resize(size);
  return text;
}

absl::StatusOr<std::unique_ptr<RemotePeers>> RemotePeers::Create(
    const RemotePeersOptions& options) {
  std::unique_ptr<RemotePeers> peers(new RemotePeers(options.is_plain));
  if (!options.token_file.empty()) {
    RETURN_IF_ERROR(peers->ReadTokens(options.token_file));
  }
  return peers;
}

absl::Status RemotePeers::ReadTokens(const std::string& file) {
  ASSIGN_OR_RETURN(const std::string text,
                   ReadSmallFile(file, kMaxTokenFileBytes, true));
  int line_number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++line_number;
    const auto at_line = [&](const char* fault) {
      return absl::InvalidArgumentError(
          absl::StrCat(file, ":", line_number, ": ", fault));
    };
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipWhitespace());
    if (words.empty() || words[0][0] == '#') continue;
    if (words.size() != 2) return at_line("not of the form: user token");
    if (words[0].size() > kMaxUserBytes || !IsPrintable(words[0])) {
      return at_line("the user's name is too long or has odd characters");
    }
    if (words[1].size() < kMinTokenBytes || words[1].size() > kMaxTokenBytes ||
        !IsPrintable(words[1])) {
      return at_line("a token has 16 to 4096 printable characters");
    }
    if (tokens_.size() == kMaxTokens) return at_line("too many tokens");
    for (const Token& token : tokens_) {
      if (token.secret == words[1]) return at_line("the token is there twice");
    }
    tokens_.push_back({words[0], words[1]});
  }
  if (tokens_.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("token file ", file, " has no token"));
  }
  return absl::OkStatus();
}

absl::StatusOr<PeerCredentials> RemotePeers::Authenticate(
    const grpc::ServerContext& call) {
  // Alternative names before the common name; empty without a certificate that
  // the client authority signed.
  std::vector<std::string_view> names;
  const auto context = call.auth_context();
  if (context != nullptr && context->IsPeerAuthenticated()) {
    for (const grpc::string_ref& name : context->GetPeerIdentity()) {
      names.emplace_back(name.data(), name.size());
    }
  }
  const auto& metadata = call.client_metadata();
  const auto found = metadata.find("authorization");
  const std::string_view authorization =
      found == metadata.end()
          ? std::string_view()
          : std::string_view(found->second.data(), found->second.size());
  return Identify(names, authorization);
}

absl::StatusOr<PeerCredentials> RemotePeers::Identify(
    const std::vector<std::string_view>& certificate_names,
    std::string_view authorization) {
  for (const std::string_view name : certificate_names) {
    if (!name.empty() && name.size() <= kMaxUserBytes) return Numbered(name);
  }
  if (authorization.substr(0, kBearer.size()) == kBearer &&
      authorization.size() <= kBearer.size() + kMaxTokenBytes) {
    const std::string_view secret = authorization.substr(kBearer.size());
    const Token* match = nullptr;
    for (const Token& token : tokens_) {
      if (EqualInConstantTime(secret, token.secret)) match = &token;
    }
    if (match != nullptr) return Numbered(match->user);
  }
  if (is_plain_ && tokens_.empty()) return Numbered("plain");
  return absl::UnauthenticatedError(
      "this daemon wants a client certificate or a token that it knows");
}

absl::StatusOr<PeerCredentials> RemotePeers::Numbered(std::string_view user) {
  PeerCredentials peer;
  peer.remote_user = std::string(user);
  base::MutexLock lock(mutex_);
  const auto found = numbers_.find(peer.remote_user);
  if (found != numbers_.end()) {
    peer.uid = found->second;
    return peer;
  }
  if (numbers_.size() == kMaxUsers) {
    return absl::ResourceExhaustedError("there are too many remote users");
  }
  peer.uid = kFirstRemoteUid + static_cast<uid_t>(numbers_.size());
  numbers_.emplace(peer.remote_user, peer.uid);
  return peer;
}

}  // namespace tvarant
