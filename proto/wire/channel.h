// What client and daemon agree on about the gRPC connection itself.

#ifndef TVARANT_PROTO_WIRE_CHANNEL_H_
#define TVARANT_PROTO_WIRE_CHANNEL_H_

#include <cstdint>

namespace tvarant {

// Protocol versions that this tree speaks, both ends included.
inline constexpr uint32_t kMinProtocol = 1;
inline constexpr uint32_t kMaxProtocol = 1;

// Metadata entry that carries the session token (32 bytes) of every call but
// OpenSession.
inline constexpr char kSessionMetadataKey[] = "tvarant-session-bin";
inline constexpr int kSessionTokenBytes = 32;

// The client pings an idle connection this often and gives the daemon this
// long to answer; the daemon allows pings that come no faster than
// kMinPingIntervalMs, with or without calls.
inline constexpr int kKeepaliveTimeMs = 20000;
inline constexpr int kKeepaliveTimeoutMs = 20000;
inline constexpr int kMinPingIntervalMs = 5000;

// The same over TCP, where nothing but an answer that stays away tells of a
// link or a machine that is gone: the client learns of it after at most the sum
// of its two, the daemon, which must not end a session that is only slow, after
// the sum of its own.
inline constexpr int kRemoteKeepaliveTimeMs = 5000;
inline constexpr int kRemoteKeepaliveTimeoutMs = 5000;
inline constexpr int kServerKeepaliveTimeMs = 20000;
inline constexpr int kServerKeepaliveTimeoutMs = 20000;

// gRPC's limit for one message, either way. Batches stay below
// Limits.max_batch_bytes, which is below this.
inline constexpr int kMaxMessageBytes = 2 << 20;

}  // namespace tvarant

#endif  // TVARANT_PROTO_WIRE_CHANNEL_H_
