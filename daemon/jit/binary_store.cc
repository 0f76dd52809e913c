#include "daemon/jit/binary_store.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/base/logging.h"
#include "proto/base/unique_fd.h"

namespace tvarant {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[8] = {'T', 'V', 'K', 'C', '0', '0', '0', '1'};
constexpr std::string_view kSuffix = ".tvk";
constexpr char kNewPrefix[] = ".new-";  // while it is written
constexpr size_t kDigestBytes = 64;     // hexadecimal
constexpr uint64_t kMaxEntryBytes = 64 << 20;

struct Header {
  char magic[sizeof(kMagic)];
  uint64_t payload_bytes;  // little endian, as all of this project's machines
  char digest[kDigestBytes];
};
static_assert(sizeof(Header) == 80);

std::string ErrorText(int error) {
  return std::generic_category().message(error);
}

bool IsKey(std::string_view key) {
  if (key.empty() || key.size() > 128) return false;
  return std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
  });
}

bool ReadAll(int fd, char* to, size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = ::read(fd, to, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool WriteAll(int fd, const char* from, size_t bytes) {
  while (bytes > 0) {
    const ssize_t put = ::write(fd, from, bytes);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    from += put;
    bytes -= static_cast<size_t>(put);
  }
  return true;
}

// What processes that were killed while they wrote have left.
void RemoveLeftovers(const std::string& folder) {
  constexpr int64_t kOldSeconds = 3600;
  std::error_code error;
  for (fs::directory_iterator file(folder, error), end; !error && file != end;
       file.increment(error)) {
    struct stat info;
    if (file->path().filename().string().rfind(kNewPrefix, 0) == 0 &&
        ::lstat(file->path().c_str(), &info) == 0 &&
        info.st_mtim.tv_sec + kOldSeconds < ::time(nullptr)) {
      ::unlink(file->path().c_str());
    }
  }
}

// The payload, if the file is whole.
std::optional<std::string> ReadEntry(int fd) {
  struct stat info;
  Header header;
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) ||
      info.st_uid != ::geteuid() ||
      !ReadAll(fd, reinterpret_cast<char*>(&header), sizeof(header)) ||
      std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0 ||
      header.payload_bytes > kMaxEntryBytes ||
      sizeof(header) + header.payload_bytes !=
          static_cast<uint64_t>(info.st_size)) {
    return std::nullopt;
  }
  std::string payload(header.payload_bytes, '\0');
  if (!ReadAll(fd, payload.data(), payload.size()) ||
      Sha256Hex(payload) != std::string_view(header.digest, kDigestBytes)) {
    return std::nullopt;
  }
  return payload;
}

}  // namespace

std::string Sha256Hex(std::string_view bytes) {
  unsigned char digest[32];
  unsigned int size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(),
                 nullptr) != 1 ||
      size != sizeof(digest)) {
    return "";  // out of memory: never equal to a stored digest
  }
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), sizeof(digest)));
}

absl::StatusOr<std::unique_ptr<BinaryStore>> BinaryStore::Open(
    const std::string& folder, uint64_t max_bytes) {
  std::error_code error;
  const fs::path parent = fs::path(folder).parent_path();
  if (!parent.empty()) fs::create_directories(parent, error);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::FailedPreconditionError(
        absl::StrCat("kernel cache folder ", folder, ": ", ErrorText(errno)));
  }
  struct stat info;
  if (::lstat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat("kernel cache folder ", folder, " is no folder"));
  }
  if (info.st_uid != ::geteuid() || (info.st_mode & 022) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("kernel cache folder ", folder,
                     " belongs to another user, or others may write to it"));
  }
  if (::access(folder.c_str(), R_OK | W_OK | X_OK) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("kernel cache folder ", folder, " can't be written to"));
  }
  RemoveLeftovers(folder);
  return absl::WrapUnique(new BinaryStore(folder, max_bytes));
}

std::string BinaryStore::PathOf(const std::string& key) const {
  return std::string(absl::StrCat(folder_, "/", key)).append(kSuffix);
}

std::optional<std::string> BinaryStore::Load(const std::string& key) const {
  if (!IsKey(key)) return std::nullopt;
  const std::string path = PathOf(key);
  const base::UniqueFd fd(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (fd.get() < 0) return std::nullopt;
  std::optional<std::string> payload = ReadEntry(fd.get());
  if (!payload.has_value()) {
    spdlog::warn("event=kernel_cache_damaged file={}", base::LogValue(path));
    ::unlink(path.c_str());
    return std::nullopt;
  }
  ::futimens(fd.get(), nullptr);  // used now
  return payload;
}

absl::Status BinaryStore::Save(const std::string& key,
                               std::string_view binary) const {
  if (!IsKey(key)) return absl::InvalidArgumentError("not a key");
  if (binary.size() > kMaxEntryBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a program of ", binary.size(), " bytes is too large"));
  }
  Header header;
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.payload_bytes = binary.size();
  const std::string digest = Sha256Hex(binary);
  if (digest.size() != kDigestBytes) {
    return absl::ResourceExhaustedError("no memory for a digest");
  }
  std::memcpy(header.digest, digest.data(), kDigestBytes);

  std::string path = absl::StrCat(folder_, "/", kNewPrefix, "XXXXXX");
  const base::UniqueFd fd(::mkostemp(path.data(), O_CLOEXEC));
  if (fd.get() < 0) {
    return absl::UnavailableError(
        absl::StrCat("kernel cache folder ", folder_, ": ", ErrorText(errno)));
  }
  if (!WriteAll(fd.get(), reinterpret_cast<const char*>(&header),
                sizeof(header)) ||
      !WriteAll(fd.get(), binary.data(), binary.size()) ||
      ::rename(path.c_str(), PathOf(key).c_str()) != 0) {
    const int error = errno;
    ::unlink(path.c_str());
    return absl::UnavailableError(
        absl::StrCat("kernel cache folder ", folder_, ": ", ErrorText(error)));
  }
  Shrink();
  return absl::OkStatus();
}

std::vector<BinaryStore::Entry> BinaryStore::List() const {
  std::vector<Entry> entries;
  std::error_code error;
  for (fs::directory_iterator file(folder_, error), end; !error && file != end;
       file.increment(error)) {
    if (file->path().extension() != kSuffix) continue;
    struct stat info;
    if (::lstat(file->path().c_str(), &info) != 0) continue;
    entries.push_back({.key = file->path().stem(),
                       .bytes = static_cast<uint64_t>(info.st_size),
                       .last_used_s = info.st_mtim.tv_sec});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.last_used_s > b.last_used_s;
  });
  return entries;
}

BinaryStore::Cleared BinaryStore::Clear() const {
  Cleared cleared;
  for (const Entry& entry : List()) {
    if (::unlink(PathOf(entry.key).c_str()) != 0) continue;
    ++cleared.entries;
    cleared.bytes += entry.bytes;
  }
  return cleared;
}

void BinaryStore::Shrink() const {
  const std::vector<Entry> entries = List();
  uint64_t kept = 0;
  for (const Entry& entry : entries) {
    kept += entry.bytes;
    if (kept > max_bytes_) ::unlink(PathOf(entry.key).c_str());
  }
}

}  // namespace tvarant
