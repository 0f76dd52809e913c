// The page that a local client and the daemon share: how far each stream is.
//
// The daemon makes one sealed memfd per session and passes it over the side
// protocol. It writes progress; a client waits on `progress_futex`. Both sides
// keep their own copy of whatever they decide by: the daemon never reads a
// sequence number back, the client treats the page as hints of progress only.
//
// Plain C++. All fields are accessed as lock-free atomics.

#ifndef TVARANT_PROTO_WIRE_SHARED_PAGE_H_
#define TVARANT_PROTO_WIRE_SHARED_PAGE_H_

#include <atomic>
#include <cstdint>

namespace tvarant {

inline constexpr uint32_t kSharedPageMagic = 0x54564150;  // "PAVT"
inline constexpr int kMaxStreamsPerSession = 64;

// One stream. A cache line of its own.
struct alignas(64) StreamSlot {
  std::atomic<uint64_t> completed;  // all up to this sequence number are done
  // Failure messages that the daemon has sent or is about to send on this
  // stream; raised before `completed` passes the failed command, so that a
  // client which sees the progress waits for the message too.
  std::atomic<uint64_t> errors;
  std::atomic<uint32_t> progress_futex;  // changes with every completion
  std::atomic<uint32_t> waiters;  // client: somebody waits; daemon: a hint
                                  // that a wake is worth a system call
  // Client, before it adds to waiters: the least sequence number that anybody
  // waits for, so that a wait for the last of many records is woken once. 0
  // (as it is at first) or any smaller number: woken by every record.
  std::atomic<uint64_t> wake_at;
};
static_assert(sizeof(StreamSlot) == 64);

struct SharedPage {
  uint32_t magic;
  uint32_t version;                     // 1
  std::atomic<uint32_t> busy_sessions;  // other sessions with queued work
  std::atomic<uint32_t> dead;           // set once when the session has ended
  alignas(64) StreamSlot streams[kMaxStreamsPerSession];
};

inline constexpr uint64_t kSharedPageBytes =
    (sizeof(SharedPage) + 4095) / 4096 * 4096;

}  // namespace tvarant

#endif  // TVARANT_PROTO_WIRE_SHARED_PAGE_H_
