// ProgramTable: handles of the programs of a session, by content.

#ifndef TVARANT_CLIENT_PROGRAM_TABLE_H_
#define TVARANT_CLIENT_PROGRAM_TABLE_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "client/client.h"
#include "proto/base/mutex.h"

namespace tvarant::client {

// Program handles have this bit, all others do not, so that a handle gives
// the program's place in the table.
inline constexpr uint64_t kProgramHandleBit = uint64_t{1} << 63;

// Thread-safe.
class ProgramTable {
 public:
  // 0: no limit.
  explicit ProgramTable(uint64_t max_programs) : max_programs_(max_programs) {}

  // INVALID_ARGUMENT if it fails ValidateProgram; RESOURCE_EXHAUSTED when the
  // daemon's limit is reached.
  Result<uint64_t> Define(const Program& program);

  // Place of a handle in the table; -1 if the handle is not of here.
  int64_t IndexOf(uint64_t handle) const;
  // The bytes for the wire, of an index that IndexOf gave. Never moves.
  const std::string& Serialized(int64_t index) const;

 private:
  const uint64_t max_programs_;
  mutable base::Mutex mutex_;
  // Nodes of an unordered_map stay where they are.
  std::unordered_map<std::string, uint64_t> by_content_ ABSL_GUARDED_BY(mutex_);
  std::vector<const std::string*> serialized_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tvarant::client

#endif  // TVARANT_CLIENT_PROGRAM_TABLE_H_
