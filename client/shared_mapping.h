// SharedMapping: memory of the daemon, mapped into this process.

#ifndef TVARANT_CLIENT_SHARED_MAPPING_H_
#define TVARANT_CLIENT_SHARED_MAPPING_H_

#include <cstdint>

#include "client/client.h"

namespace tvarant::client {

// Maps size_bytes of a memfd at `at` (MAP_FIXED; null: anywhere), read and
// write, kept out of forked children. INTERNAL unless the file is sealed
// against shrinking and at least that long: touching memory past the end of a
// file kills a process. RESOURCE_EXHAUSTED when the kernel refuses.
Result<void*> MapSealed(int fd, uint64_t size_bytes, void* at);

// Owns a mapping made by MapSealed. Thread-compatible.
class SharedMapping {
 public:
  SharedMapping() = default;
  SharedMapping(void* data, uint64_t size_bytes)
      : data_(data), size_bytes_(size_bytes) {}
  SharedMapping(SharedMapping&& other) noexcept;
  SharedMapping& operator=(SharedMapping&& other) noexcept;
  ~SharedMapping();

  void* data() const { return data_; }
  uint64_t size_bytes() const { return size_bytes_; }

 private:
  void* data_ = nullptr;
  uint64_t size_bytes_ = 0;
};

}  // namespace tvarant::client

#endif  // TVARANT_CLIENT_SHARED_MAPPING_H_
