// Helpers that every op file uses: tensors to operands, launches, checks.
//
// Example: y = op(x) of equal sizes
//   LaunchBuilder launch(Kernel::kCopy, y.device());
//   launch.Dst(y).Src(x).Run();

#ifndef TVARANT_TORCH_PLUGIN_ATEN_LAUNCH_H_
#define TVARANT_TORCH_PLUGIN_ATEN_LAUNCH_H_

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include "proto/ops/program.h"
#include "proto/wire/launch_params.h"
#include "torch_plugin/runtime/device.h"

namespace tvarant::torch_plugin {

// PyTorch's scalar type -> wire type; kInvalid where there is none.
DType ToDType(c10::ScalarType type) noexcept;
c10::ScalarType ToScalarType(DType dtype) noexcept;

// Raises PyTorch's "Expected all tensors to be on the same device" unless the
// tensor is on `device`.
void CheckSameDevice(const at::Tensor& tensor, c10::Device device,
                     const char* op, const char* argument);

// Collects one launch. Keeps sizes and strides alive until Run. Cheap: no heap
// for up to 6 operands of rank <= 8.
class LaunchBuilder {
 public:
  LaunchBuilder(Kernel kernel, c10::Device device);

  // Operands in order; a tensor as it is (its sizes, strides, offset).
  LaunchBuilder& Dst(const at::Tensor& tensor);
  LaunchBuilder& Src(const at::Tensor& tensor);
  LaunchBuilder& DstOrAbsent(const at::Tensor& tensor);  // undefined: absent
  LaunchBuilder& SrcOrAbsent(const at::Tensor& tensor);
  // The same storage seen with other sizes and strides (elements).
  LaunchBuilder& DstAs(const at::Tensor& tensor, at::IntArrayRef sizes,
                       at::IntArrayRef strides);
  LaunchBuilder& SrcAs(const at::Tensor& tensor, at::IntArrayRef sizes,
                       at::IntArrayRef strides);
  // An operand by address.
  LaunchBuilder& DstRaw(const void* address, DType dtype, at::IntArrayRef sizes,
                        at::IntArrayRef strides);
  LaunchBuilder& SrcRaw(const void* address, DType dtype, at::IntArrayRef sizes,
                        at::IntArrayRef strides);

  LaunchBuilder& Int(int64_t value);
  LaunchBuilder& Float(double value);

  LaunchParams& params() { return params_; }  // m, n, k, act, flags, ...

  void Run();

 private:
  void Add(bool is_dst, const void* address, DType dtype, at::IntArrayRef sizes,
           at::IntArrayRef strides);

  struct Entry {
    Location location;
    DType dtype;
    uint8_t rank;
    uint32_t extents_begin;
  };
  Device& device_;
  LaunchParams params_;
  c10::SmallVector<Entry, 6> dst_, src_;
  c10::SmallVector<int64_t, 96> extents_;
  c10::SmallVector<int64_t, 8> ints_;
  c10::SmallVector<double, 8> floats_;
};

}  // namespace tvarant::torch_plugin

#endif  // TVARANT_TORCH_PLUGIN_ATEN_LAUNCH_H_
