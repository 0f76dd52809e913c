// Tensors as the kernels of space take them: [N, C, D, H, W].
//
// Example: a [C, H, W] image and its maxima
//   LaunchBuilder launch(Kernel::kMaxPool, x.device());
//   AddVolume(launch.Dst..., Volume(y, 2));

#ifndef TVARANT_TORCH_PLUGIN_ATEN_VOLUME_H_
#define TVARANT_TORCH_PLUGIN_ATEN_VOLUME_H_

#include <ATen/core/Tensor.h>

#include <array>

#include "torch_plugin/aten/launch.h"
#include "torch_plugin/aten/op_support.h"

namespace tvarant::torch_plugin {

using Triple = std::array<int64_t, 3>;

// The last `space` dimensions are space, the one before is the channel, what
// is left the batch. Missing dimensions have size 1.
struct Volume {
  Volume(const Tensor& tensor, int64_t space) : tensor(tensor) {
    sizes.fill(1);
    strides.fill(0);
    const int64_t dims = tensor.dim();
    for (int64_t i = 0; i < dims; ++i) {
      const int64_t from_end = dims - 1 - i;
      const size_t at = static_cast<size_t>(
          from_end < space ? 4 - from_end : space - from_end + 1);
      sizes[at] = tensor.size(i);
      strides[at] = tensor.stride(i);
    }
  }
  const Tensor& tensor;
  std::array<int64_t, 5> sizes, strides;
};

inline LaunchBuilder& AddDst(LaunchBuilder& launch, const Volume& v) {
  return launch.DstAs(v.tensor, v.sizes, v.strides);
}
inline LaunchBuilder& AddSrc(LaunchBuilder& launch, const Volume& v) {
  return launch.SrcAs(v.tensor, v.sizes, v.strides);
}

// `values` for the last dimensions of space (one number: for all), `other` for
// the missing ones.
inline Triple SpaceOf(IntArrayRef values, int64_t space, int64_t other) {
  Triple triple{other, other, other};
  for (int64_t i = 0; i < space; ++i) {
    triple[static_cast<size_t>(3 - space + i)] =
        values[values.size() == 1 ? 0 : static_cast<size_t>(i)];
  }
  return triple;
}

inline LaunchBuilder& AddInts(LaunchBuilder& launch, const Triple& values) {
  for (const int64_t value : values) launch.Int(value);
  return launch;
}

// Channels last for four or five dimensions, as the tensor suggests.
inline bool IsChannelsLast(const Tensor& tensor) {
  return tensor.suggest_memory_format() != at::MemoryFormat::Contiguous;
}

// Writes `make(target)` through a contiguous target where the result isn't
// contiguous itself.
template <class Make>
void ThroughContiguous(const Tensor& result, const Make& make) {
  if (result.is_contiguous()) {
    make(result);
    return;
  }
  const Tensor aside = EmptyLikeOf(result, result.sizes());
  make(aside);
  result.copy_(aside);
}

}  // namespace tvarant::torch_plugin

#endif  // TVARANT_TORCH_PLUGIN_ATEN_VOLUME_H_
