// BinaryStore: compiled programs kept on disk from one start to the next.
//
// One file an entry, named by the caller's key. An entry is written under
// another name and renamed, carries its length and a SHA-256, and is only
// handed out if both fit: drivers crash on damaged binaries. The folder must
// belong to this user and be writable by nobody else.
//
// Example:
//   ASSIGN_OR_RETURN(auto store, BinaryStore::Open(folder, 256 << 20));
//   if (auto binary = store->Load(key)) Use(*binary);
//   else store->Save(key, Compile());

#ifndef TVARANT_DAEMON_JIT_BINARY_STORE_H_
#define TVARANT_DAEMON_JIT_BINARY_STORE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tvarant {

// Of the bytes, as 64 hexadecimal digits.
std::string Sha256Hex(std::string_view bytes);

// Thread-safe; several processes may share a folder.
class BinaryStore {
 public:
  // Makes the folder, with rights for the owner alone, if it is not there.
  // FAILED_PRECONDITION if it is not ours alone or not writable.
  static absl::StatusOr<std::unique_ptr<BinaryStore>> Open(
      const std::string& folder, uint64_t max_bytes);

  // Nothing if there is no such entry, or it is damaged; then it is removed.
  std::optional<std::string> Load(const std::string& key) const;

  // Removes the entries used least recently while there are more than
  // max_bytes. `key`: at most 128 characters of [A-Za-z0-9_-].
  absl::Status Save(const std::string& key, std::string_view binary) const;

  struct Entry {
    std::string key;
    uint64_t bytes = 0;
    int64_t last_used_s = 0;  // Unix time
  };
  // Most recently used first.
  std::vector<Entry> List() const;
  struct Cleared {
    uint64_t entries = 0;
    uint64_t bytes = 0;
  };
  // What was removed.
  Cleared Clear() const;

  const std::string& folder() const { return folder_; }

 private:
  BinaryStore(std::string folder, uint64_t max_bytes)
      : folder_(std::move(folder)), max_bytes_(max_bytes) {}

  std::string PathOf(const std::string& key) const;
  void Shrink() const;

  const std::string folder_;
  const uint64_t max_bytes_;
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_JIT_BINARY_STORE_H_
