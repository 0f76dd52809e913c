// How much memory this process may use, and on how many processors.

#ifndef TVARANT_DAEMON_RUNTIME_HOST_MEMORY_H_
#define TVARANT_DAEMON_RUNTIME_HOST_MEMORY_H_

#include <cstdint>

namespace tvarant {

// The machine's memory, or the limit of a control group (version 1 or 2) that
// this process is in, whichever is less.
uint64_t UsableMemoryBytes();

// Processors that the scheduler may run this process on; at least 1.
int UsableProcessors();

}  // namespace tvarant

#endif  // TVARANT_DAEMON_RUNTIME_HOST_MEMORY_H_
