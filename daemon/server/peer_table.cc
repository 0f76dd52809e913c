#include "daemon/server/peer_table.h"

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace tvarant {

void PeerTable::Add(int fd, uint64_t connection,
                    const PeerCredentials& credentials) {
  base::MutexLock lock(mutex_);
  entries_.insert_or_assign(fd, Entry{connection, credentials});
}

void PeerTable::Remove(int fd, uint64_t connection) {
  base::MutexLock lock(mutex_);
  const auto found = entries_.find(fd);
  if (found != entries_.end() && found->second.connection == connection) {
    entries_.erase(found);
  }
}

std::optional<PeerCredentials> PeerTable::Find(const std::string& peer) const {
  absl::string_view number = peer;
  int fd;
  if (!absl::ConsumePrefix(&number, "fd:") || !absl::SimpleAtoi(number, &fd)) {
    return std::nullopt;
  }
  base::MutexLock lock(mutex_);
  const auto found = entries_.find(fd);
  if (found == entries_.end()) return std::nullopt;
  return found->second.credentials;
}

}  // namespace tvarant
