// ProgramCache: the pointwise programs of all sessions, each distinct one once.
//
// A program is known by its bytes. Two clients that define the same one share
// it and its key, under which runtimes keep what they made of it.

#ifndef TVARANT_DAEMON_SERVER_PROGRAM_CACHE_H_
#define TVARANT_DAEMON_SERVER_PROGRAM_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "proto/base/mutex.h"
#include "proto/ops/program.h"

namespace tvarant {

struct CachedProgram {
  Program program;  // valid
  std::string bytes;
  uint64_t key = 0;  // never given to another program; not 0
  // For errors: the op of a program that has only one, else null.
  const char* only_op = nullptr;
};

// Thread-safe.
class ProgramCache {
 public:
  // INVALID_ARGUMENT if the bytes are no valid program.
  absl::StatusOr<std::shared_ptr<const CachedProgram>> Intern(
      std::string bytes);

 private:
  base::Mutex mutex_;
  // Shared with the sessions that defined it; forgotten with the last.
  absl::flat_hash_map<std::string, std::weak_ptr<const CachedProgram>> programs_
      ABSL_GUARDED_BY(mutex_);
  uint64_t last_key_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t sweep_at_ ABSL_GUARDED_BY(mutex_) = 1024;
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_SERVER_PROGRAM_CACHE_H_
