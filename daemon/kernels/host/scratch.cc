#include "daemon/kernels/host/scratch.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

namespace tvarant::host {
namespace {

constexpr size_t kKeptBytes = size_t{16} << 20;

struct Free {
  void operator()(char* p) const { std::free(p); }
};

struct Buffer {
  char* AtLeast(size_t size_bytes) {
    if (size_bytes > capacity ||
        (capacity > kKeptBytes && size_bytes <= kKeptBytes)) {
      data.reset();
      capacity = 0;
      // Grows at least by half, so that slowly growing requests stay cheap.
      size_t wanted = size_bytes;
      if (wanted <= kKeptBytes)
        wanted = std::min(wanted + wanted / 2, kKeptBytes);
      wanted = (std::max<size_t>(wanted, 4096) + 63) / 64 * 64;
      if (wanted < size_bytes) return nullptr;
      data.reset(static_cast<char*>(std::aligned_alloc(64, wanted)));
      if (data == nullptr) return nullptr;
      capacity = wanted;
    }
    return data.get();
  }

  std::unique_ptr<char, Free> data;
  size_t capacity = 0;
};

}  // namespace

char* Scratch(size_t size_bytes) {
  thread_local Buffer buffer;
  return buffer.AtLeast(size_bytes);
}

char* LaunchScratch(size_t size_bytes) {
  thread_local Buffer buffer;
  return buffer.AtLeast(size_bytes);
}

}  // namespace tvarant::host
