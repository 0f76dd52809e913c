// The side protocol: fixed 64-byte messages on a second connection to the
// daemon's socket, for what gRPC can't do: passing file descriptors, and
// telling by its end that a client died, even after SIGKILL.
//
// The daemon tells it from gRPC by the first bytes (gRPC's HTTP/2 preface
// starts with "PRI"). The client sends kAttach with its session token; the
// daemon answers kAttached with the shared page's descriptor, then one kMemory
// message with a descriptor for each CreateSegment (map_memory) and
// CreateStaging, before that call's reply. Neither side ever sends anything
// else; anything else ends the connection.

#ifndef TVARANT_PROTO_WIRE_SIDE_PROTOCOL_H_
#define TVARANT_PROTO_WIRE_SIDE_PROTOCOL_H_

#include <cstdint>

namespace tvarant {

inline constexpr char kSideMagic[4] = {'T', 'V', 'S', 'D'};
inline constexpr uint16_t kSideVersion = 1;

enum class SideKind : uint16_t {
  kAttach = 1,    // client: token
  kAttached = 2,  // daemon: fd = shared page
  kMemory = 3,    // daemon: handle, size_bytes; fd = sealed memfd
  kRefused = 4,   // daemon: token was wrong; it closes then
};

struct SideMessage {
  char magic[4];
  uint16_t version;
  SideKind kind;
  uint8_t token[32];
  uint64_t handle;
  uint64_t size_bytes;
  uint64_t reserved;
};
static_assert(sizeof(SideMessage) == 64);

}  // namespace tvarant

#endif  // TVARANT_PROTO_WIRE_SIDE_PROTOCOL_H_
