// SessionContext: what the streams of a session share.

#ifndef TVARANT_CLIENT_SESSION_CONTEXT_H_
#define TVARANT_CLIENT_SESSION_CONTEXT_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "client/client.h"
#include "client/flusher.h"
#include "client/fork_guard.h"
#include "client/lifeline.h"
#include "client/program_table.h"
#include "client/rpc.h"
#include "proto/wire/shared_page.h"

namespace tvarant::client {

struct AtomicCounters {
  std::atomic<uint64_t> launches{0};
  std::atomic<uint64_t> records{0};
  std::atomic<uint64_t> batches{0};
  std::atomic<uint64_t> round_trips{0};
  std::atomic<uint64_t> uploaded_bytes{0};
  std::atomic<uint64_t> downloaded_bytes{0};
};

inline void Count(std::atomic<uint64_t>& counter, uint64_t by = 1) {
  counter.fetch_add(by, std::memory_order_relaxed);
}

// All members are thread-safe. Outlives the streams.
struct SessionContext {
  SessionContext(std::unique_ptr<Rpc> rpc_in, uint64_t max_programs)
      : rpc(std::move(rpc_in)), programs(max_programs) {}

  ForkGuard fork;
  Lifeline life;
  AtomicCounters counters;
  std::unique_ptr<Rpc> rpc;
  ProgramTable programs;
  Flusher flusher;
  SharedPage* page = nullptr;  // null: progress comes by messages
  uint64_t max_batch_bytes = 0;
};

}  // namespace tvarant::client

#endif  // TVARANT_CLIENT_SESSION_CONTEXT_H_
