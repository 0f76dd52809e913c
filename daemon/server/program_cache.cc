#include "daemon/server/program_cache.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tvarant {
namespace {

const char* OnlyOp(const Program& program) {
  const char* name = nullptr;
  for (const ProgramNode& node : program.nodes) {
    if (node.op == PointwiseOp::kLoad || node.op == PointwiseOp::kScalar ||
        node.op == PointwiseOp::kConst) {
      continue;
    }
    if (name != nullptr) return nullptr;
    name = NameOf(node.op);
  }
  return name;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const CachedProgram>> ProgramCache::Intern(
    std::string bytes) {
  {
    base::MutexLock lock(mutex_);
    const auto found = programs_.find(bytes);
    if (found != programs_.end()) {
      if (auto program = found->second.lock()) return program;
    }
  }
  auto made = std::make_shared<CachedProgram>();
  if (!Program::Parse(bytes.data(), bytes.size(), &made->program)) {
    return absl::InvalidArgumentError("program: the bytes are no program");
  }
  const std::string fault = ValidateProgram(made->program);
  if (!fault.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("program: ", fault));
  }
  made->only_op = OnlyOp(made->program);
  made->bytes = bytes;

  base::MutexLock lock(mutex_);
  auto& entry = programs_[std::move(bytes)];
  // Another thread may have made the same meanwhile.
  if (auto program = entry.lock()) return program;
  made->key = ++last_key_;
  entry = made;
  if (programs_.size() >= sweep_at_) {
    absl::erase_if(programs_,
                   [](const auto& item) { return item.second.expired(); });
    sweep_at_ = std::max<size_t>(1024, 2 * programs_.size());
  }
  return std::shared_ptr<const CachedProgram>(std::move(made));
}

}  // namespace tvarant
