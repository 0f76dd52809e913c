#include "torch_plugin/runtime/storage.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

#include "torch_plugin/runtime/allocator.h"
#include "torch_plugin/runtime/device.h"

namespace tvarant::torch_plugin {

void ResizeStorage(c10::StorageImpl* storage, size_t size_bytes) {
  TORCH_CHECK(storage->resizable(),
              "Trying to resize storage that is not resizable");
  const c10::DeviceIndex previous = ExchangeDevice(storage->device().index());
  struct Restore {
    c10::DeviceIndex index;
    ~Restore() { ExchangeDevice(index); }
  } restore{previous};
  c10::DataPtr data = DeviceAllocator::Get().allocate(size_bytes);
  const size_t kept = std::min<size_t>(storage->nbytes(), size_bytes);
  if (kept != 0 && storage->data() != nullptr) {
    DeviceAllocator::Get().copy_data(data.get(), storage->data(), kept);
    // The old block must not be reused before the copy has passed.
    const c10::DeviceIndex index = storage->device().index();
    DeviceAllocator::Get().recordStream(
        storage->data_ptr(), c10::Stream(c10::Stream::UNSAFE, storage->device(),
                                         CurrentStreamId(index)));
  }
  storage->set_data_ptr_noswap(std::move(data));
  storage->set_nbytes(size_bytes);
}

}  // namespace tvarant::torch_plugin
