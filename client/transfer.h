// Bytes between host and segments.

#ifndef TVARANT_CLIENT_TRANSFER_H_
#define TVARANT_CLIENT_TRANSFER_H_

#include <cstdint>
#include <memory>

#include "client/client.h"
#include "client/session_state.h"
#include "client/stream_core.h"

namespace tvarant::client {

// As Stream::Upload: the bytes have been taken when it returns.
Result<uint64_t> Upload(SessionState& session,
                        const std::shared_ptr<StreamCore>& stream,
                        uint64_t segment, uint64_t offset_bytes,
                        const void* data, uint64_t bytes);

// As Stream::Download, without taking the latched failure of the stream.
// Counts at most one round trip.
Status Download(SessionState& session,
                const std::shared_ptr<StreamCore>& stream, uint64_t segment,
                uint64_t offset_bytes, void* data, uint64_t bytes);

// As Stream::UploadFrom.
Result<uint64_t> UploadFrom(SessionState& session, StreamCore& stream,
                            uint64_t segment, uint64_t offset_bytes,
                            const HostMemory& memory,
                            uint64_t memory_offset_bytes, uint64_t bytes);

// As Stream::DownloadTo, without taking the latched failure of the stream.
Status DownloadTo(SessionState& session, StreamCore& stream, uint64_t segment,
                  uint64_t offset_bytes, const HostMemory& memory,
                  uint64_t memory_offset_bytes, uint64_t bytes);

}  // namespace tvarant::client

#endif  // TVARANT_CLIENT_TRANSFER_H_
