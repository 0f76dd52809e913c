// What client and daemon agree on about large transfers by message (RunBulk in
// device.proto).

#ifndef TVARANT_PROTO_WIRE_BULK_H_
#define TVARANT_PROTO_WIRE_BULK_H_

#include <cstdint>

namespace tvarant {

// The bytes of one message, at most. Larger ones would keep the credit of
// others waiting.
inline constexpr uint64_t kMaxBulkChunkBytes = uint64_t{1} << 20;

// HTTP/2's window for a stream at its beginning. gRPC widens it as it learns
// the bandwidth and delay of the way; from the 64 KiB that it begins with else,
// that takes a dozen round trips.
inline constexpr int kStreamWindowBytes = 4 << 20;

}  // namespace tvarant

#endif  // TVARANT_PROTO_WIRE_BULK_H_
