#include "tests/conformance/runtime_backend.h"

#include <cstring>
#include <future>
#include <utility>

#include "absl/memory/memory.h"
#include "proto/base/status_macros.h"
#include "proto/wire/record.h"

namespace tvarant::conformance {

absl::StatusOr<std::unique_ptr<Backend>> RuntimeBackend::Make(
    std::unique_ptr<TvarantRuntime> runtime) {
  auto backend = absl::WrapUnique(new RuntimeBackend);
  backend->runtime_ = std::move(runtime);
  ASSIGN_OR_RETURN(backend->arena_,
                   backend->runtime_->CreateBuffer(0, kArenaBytes));
  ASSIGN_OR_RETURN(backend->stream_, backend->runtime_->CreateStream(0));
  return backend;
}

absl::Status RuntimeBackend::DoRun(const LaunchParams& params,
                                   const Program* program,
                                   const std::vector<Tensor*>& tensors,
                                   const std::vector<uint64_t>& addresses) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    RETURN_IF_ERROR(stream_->Write(*arena_, addresses[i],
                                   absl::MakeConstSpan(tensors[i]->bytes())));
  }
  absl::Status status = LaunchRecorded(params, program);
  status.Update(WaitUntilDone());
  RETURN_IF_ERROR(status);
  for (size_t i = 0; i < tensors.size(); ++i) {
    RETURN_IF_ERROR(stream_->Read(*arena_, addresses[i],
                                  absl::MakeSpan(tensors[i]->bytes())));
  }
  return WaitUntilDone();
}

absl::Status RuntimeBackend::LaunchRecorded(const LaunchParams& params,
                                            const Program* program) {
  LaunchParams with_program = params;
  if (program != nullptr) {
    const std::string error = ValidateProgram(*program);
    if (!error.empty()) return absl::InvalidArgumentError(error);
    // A new key each time: the tests' programs do not outlive their case.
    with_program.program = next_program_key_++;
  }
  std::string bytes;
  if (!RecordWriter(&bytes).Launch(with_program)) {
    return absl::InvalidArgumentError("the launch can't be encoded");
  }
  std::vector<uint64_t> words(bytes.size() / 8);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  ParsedRecord record;
  const char* error = ParseRecord(reinterpret_cast<const char*>(words.data()),
                                  bytes.size(), &record);
  if (error != nullptr) return absl::InvalidArgumentError(error);
  ASSIGN_OR_RETURN(const ResolvedLaunch launch,
                   resolver_.Resolve(
                       record.launch,
                       [this](uint64_t handle) {
                         return handle == kArenaSegment ? arena_.get()
                                                        : nullptr;
                       },
                       [program](uint64_t handle) {
                         return LaunchResolver::ProgramRef{.program = program,
                                                           .key = handle};
                       }));
  absl::Status status = stream_->Launch(launch);
  // The launch borrows the record: wait before it goes.
  status.Update(WaitUntilDone());
  return status;
}

absl::Status RuntimeBackend::WaitUntilDone() {
  std::promise<absl::Status> done;
  stream_->WhenDone(
      [&done](absl::Status status) { done.set_value(std::move(status)); });
  return done.get_future().get();
}

}  // namespace tvarant::conformance
