#include "daemon/runtime/runtime.h"

#include "absl/strings/str_cat.h"
#include "proto/base/checked_math.h"
#include "proto/base/status_macros.h"

namespace tvarant {
namespace {

absl::Status CheckRange(const char* what, uint64_t offset_bytes, uint64_t bytes,
                        uint64_t size_bytes) {
  if (base::InRange(offset_bytes, bytes, size_bytes)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": ", bytes, " bytes at offset ", offset_bytes,
                   " pass the end at ", size_bytes));
}

}  // namespace

absl::Status DeviceStream::Write(DeviceBuffer& dst, uint64_t offset_bytes,
                                 absl::Span<const char> bytes) {
  RETURN_IF_ERROR(
      CheckRange("upload", offset_bytes, bytes.size(), dst.size_bytes()));
  if (bytes.empty()) return absl::OkStatus();
  return DoWrite(dst, offset_bytes, bytes);
}

absl::Status DeviceStream::Read(DeviceBuffer& src, uint64_t offset_bytes,
                                absl::Span<char> bytes) {
  RETURN_IF_ERROR(
      CheckRange("read", offset_bytes, bytes.size(), src.size_bytes()));
  if (bytes.empty()) return absl::OkStatus();
  return DoRead(src, offset_bytes, bytes);
}

absl::Status DeviceStream::CopyFromStaging(DeviceBuffer& dst,
                                           uint64_t dst_offset_bytes,
                                           StagingBuffer& src,
                                           uint64_t src_offset_bytes,
                                           uint64_t bytes) {
  RETURN_IF_ERROR(CheckRange("upload, destination", dst_offset_bytes, bytes,
                             dst.size_bytes()));
  RETURN_IF_ERROR(
      CheckRange("upload, staging", src_offset_bytes, bytes, src.size_bytes()));
  if (bytes == 0) return absl::OkStatus();
  return DoCopyFromStaging(dst, dst_offset_bytes, src, src_offset_bytes, bytes);
}

absl::Status DeviceStream::CopyToStaging(StagingBuffer& dst,
                                         uint64_t dst_offset_bytes,
                                         DeviceBuffer& src,
                                         uint64_t src_offset_bytes,
                                         uint64_t bytes) {
  RETURN_IF_ERROR(CheckRange("download, staging", dst_offset_bytes, bytes,
                             dst.size_bytes()));
  RETURN_IF_ERROR(CheckRange("download, source", src_offset_bytes, bytes,
                             src.size_bytes()));
  if (bytes == 0) return absl::OkStatus();
  return DoCopyToStaging(dst, dst_offset_bytes, src, src_offset_bytes, bytes);
}

absl::Status DeviceStream::CopyBytes(DeviceBuffer& dst,
                                     uint64_t dst_offset_bytes,
                                     DeviceBuffer& src,
                                     uint64_t src_offset_bytes,
                                     uint64_t bytes) {
  RETURN_IF_ERROR(CheckRange("copy, destination", dst_offset_bytes, bytes,
                             dst.size_bytes()));
  RETURN_IF_ERROR(
      CheckRange("copy, source", src_offset_bytes, bytes, src.size_bytes()));
  if (bytes == 0) return absl::OkStatus();
  if (&dst == &src) {
    if (dst_offset_bytes == src_offset_bytes) return absl::OkStatus();
    // In range, so neither sum overflows.
    if (dst_offset_bytes < src_offset_bytes + bytes &&
        src_offset_bytes < dst_offset_bytes + bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("copy: ", bytes, " bytes from offset ", src_offset_bytes,
                       " to ", dst_offset_bytes, " overlap"));
    }
  }
  return DoCopyBytes(dst, dst_offset_bytes, src, src_offset_bytes, bytes);
}

absl::Status TvarantRuntime::CheckDevice(int device) const {
  if (device >= 0 && device < device_count()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("device index ", device, " is not in [0, ", device_count(),
                   ") of runtime ", name()));
}

absl::StatusOr<RuntimeDeviceProperties> TvarantRuntime::GetProperties(
    int device) const {
  RETURN_IF_ERROR(CheckDevice(device));
  return DoGetProperties(device);
}

absl::StatusOr<std::unique_ptr<DeviceBuffer>> TvarantRuntime::CreateBuffer(
    int device, uint64_t size_bytes) {
  RETURN_IF_ERROR(CheckDevice(device));
  if (size_bytes == 0) {
    return absl::InvalidArgumentError("device memory of 0 bytes");
  }
  const uint64_t max_bytes = DoGetProperties(device).max_buffer_bytes;
  if (size_bytes > max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("out of memory: asked for ", size_bytes,
                     " bytes, the largest segment ", "is ", max_bytes,
                     " bytes, ", free_memory_bytes(device), " bytes are free"));
  }
  return DoCreateBuffer(device, size_bytes);
}

absl::StatusOr<std::unique_ptr<StagingBuffer>> TvarantRuntime::CreateStaging(
    uint64_t size_bytes) {
  if (size_bytes == 0) {
    return absl::InvalidArgumentError("staging memory of 0 bytes");
  }
  return DoCreateStaging(size_bytes);
}

absl::StatusOr<std::unique_ptr<DeviceStream>> TvarantRuntime::CreateStream(
    int device) {
  RETURN_IF_ERROR(CheckDevice(device));
  return DoCreateStream(device);
}

}  // namespace tvarant
