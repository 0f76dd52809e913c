// SelfCheck: one small launch of each family, with known results.
//
// A device that computes wrongly, or kernels built for another processor, show
// before the first client comes.

#ifndef TVARANT_DAEMON_RUNTIME_SELF_CHECK_H_
#define TVARANT_DAEMON_RUNTIME_SELF_CHECK_H_

#include "absl/status/status.h"
#include "daemon/runtime/runtime.h"

namespace tvarant {

// INTERNAL with the family, what it gave and what is right; else the runtime's
// error. Takes a few milliseconds.
absl::Status SelfCheck(TvarantRuntime& runtime, int device);

}  // namespace tvarant

#endif  // TVARANT_DAEMON_RUNTIME_SELF_CHECK_H_
