#include "client/program_table.h"

#include <utility>

#include "proto/ops/program.h"
#include "proto/wire/record.h"

namespace tvarant::client {

Result<uint64_t> ProgramTable::Define(const Program& program) {
  std::string content = program.Serialize();
  {
    base::MutexLock lock(mutex_);
    const auto found = by_content_.find(content);
    if (found != by_content_.end()) return found->second;
  }
  std::string fault = ValidateProgram(program);
  if (fault.empty() && content.size() > kMaxInlineBytes) {
    fault = "program: too large for one record";
  }
  if (!fault.empty()) return Status(Code::kInvalidArgument, std::move(fault));
  base::MutexLock lock(mutex_);
  if (max_programs_ != 0 && serialized_.size() >= max_programs_) {
    return Status(Code::kResourceExhausted, "the session has all of its " +
                                                std::to_string(max_programs_) +
                                                " programs");
  }
  // Another thread may have been faster.
  const auto [entry, is_new] = by_content_.try_emplace(std::move(content), 0);
  if (is_new) {
    entry->second = kProgramHandleBit | (serialized_.size() + 1);
    serialized_.push_back(&entry->first);
  }
  return entry->second;
}

int64_t ProgramTable::IndexOf(uint64_t handle) const {
  const uint64_t number = handle & ~kProgramHandleBit;
  base::MutexLock lock(mutex_);
  if ((handle & kProgramHandleBit) == 0 || number == 0 ||
      number > serialized_.size()) {
    return -1;
  }
  return static_cast<int64_t>(number - 1);
}

const std::string& ProgramTable::Serialized(int64_t index) const {
  base::MutexLock lock(mutex_);
  return *serialized_[index];
}

}  // namespace tvarant::client
