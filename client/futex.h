// Futex words in memory that two processes share.

#ifndef TVARANT_CLIENT_FUTEX_H_
#define TVARANT_CLIENT_FUTEX_H_

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

namespace tvarant::client {

// Sleeps while *word == expected, at most timeout_ns. May return early.
inline void FutexWait(std::atomic<uint32_t>* word, uint32_t expected,
                      int64_t timeout_ns) {
  timespec timeout;
  timeout.tv_sec = timeout_ns / 1000000000;
  timeout.tv_nsec = timeout_ns % 1000000000;
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT, expected,
            &timeout, nullptr, 0);
}

inline void FutexWakeAll(std::atomic<uint32_t>* word) {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE, INT_MAX,
            nullptr, nullptr, 0);
}

}  // namespace tvarant::client

#endif  // TVARANT_CLIENT_FUTEX_H_
