// From a launch record of a client to a launch that a runtime may run.
//
// The record has passed ParseRecord; here its handles become buffers, every
// element is shown to lie inside its buffer, and the launch passes the rules
// of its kernel. After that no kernel can touch memory that is not the
// session's own.
//
// Example:
//   LaunchResolver resolver;  // one per stream
//   absl::StatusOr<ResolvedLaunch> launch = resolver.Resolve(
//       record.launch,
//       [&](uint64_t handle) { return segments.Find(handle); },
//       [&](uint64_t handle) { return programs.Find(handle); });

#ifndef TVARANT_DAEMON_SERVER_LAUNCH_RESOLVER_H_
#define TVARANT_DAEMON_SERVER_LAUNCH_RESOLVER_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/runtime/runtime.h"
#include "proto/ops/program.h"
#include "proto/wire/launch_params.h"
#include "proto/wire/record.h"

namespace tvarant {

// Thread-compatible. Keeps its scratch memory, so that a launch takes none
// from the heap once the largest has been seen (at most kMaxOperands).
class LaunchResolver {
 public:
  // A program of the session, already validated.
  struct ProgramRef {
    const Program* program = nullptr;  // null: the handle is not known
    uint64_t key = 0;                  // identifies the program for caches
  };
  using FindSegment = absl::FunctionRef<DeviceBuffer*(uint64_t handle)>;
  using FindProgram = absl::FunctionRef<ProgramRef(uint64_t handle)>;

  // INVALID_ARGUMENT with the kernel's name for anything wrong. The result
  // points into the record, into this object (until the next call) and to
  // what the look-ups gave. An absent operand has dtype kInvalid and no
  // buffer; an empty tensor may have no buffer, but has its dtype.
  absl::StatusOr<ResolvedLaunch> Resolve(const LaunchRecord& record,
                                         FindSegment find_segment,
                                         FindProgram find_program);

 private:
  std::vector<Operand> operands_;
  std::vector<ResolvedOperand> resolved_;
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_SERVER_LAUNCH_RESOLVER_H_
