// A thread's own reusable buffer for kernels' temporaries.
//
// Example:
//   char* buffer = Scratch(bytes);   // valid until this thread's next call
//   if (buffer == nullptr) return absl::ResourceExhaustedError(...);

#ifndef TVARANT_DAEMON_KERNELS_HOST_SCRATCH_H_
#define TVARANT_DAEMON_KERNELS_HOST_SCRATCH_H_

#include <cstddef>

namespace tvarant::host {

// At least size_bytes, aligned to 64; null when there is no memory. Kept for
// the thread's life up to 16 MiB; a larger one goes with the next smaller
// request.
char* Scratch(size_t size_bytes);

// Another buffer of the thread, valid until its next call of LaunchScratch:
// for what a launch prepares and then shares with the pool's threads.
char* LaunchScratch(size_t size_bytes);

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_SCRATCH_H_
