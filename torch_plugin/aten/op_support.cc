#include "torch_plugin/aten/op_support.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/Resize.h>
#include <c10/core/Allocator.h>

#include "torch_plugin/aten/fallback.h"
#include "torch_plugin/runtime/device.h"

namespace tvarant::torch_plugin {
namespace {

c10::Allocator* DeviceAllocator() {
  static c10::Allocator* const allocator =
      c10::GetAllocator(c10::DeviceType::PrivateUse1);
  return allocator;
}

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

}  // namespace

Tensor CreateOut(IntArrayRef sizes, IntArrayRef strides,
                 const at::TensorOptions& options) {
  const DeviceScope scope(options.device());
  const ScalarType dtype = c10::typeMetaToScalarType(options.dtype());
  if (strides.empty()) {
    return at::detail::empty_generic(sizes, DeviceAllocator(), kKeys, dtype,
                                     options.memory_format_opt());
  }
  return at::detail::empty_strided_generic(sizes, strides, DeviceAllocator(),
                                           kKeys, dtype);
}

Tensor EmptyOn(c10::Device device, IntArrayRef sizes, ScalarType dtype) {
  const DeviceScope scope(device);
  return at::detail::empty_generic(sizes, DeviceAllocator(), kKeys, dtype,
                                   std::nullopt);
}

void ResizeOut(const Tensor& out, IntArrayRef sizes, IntArrayRef strides,
               const at::TensorOptions& options) {
  TORCH_CHECK(options.dtype() == out.dtype(),
              "Expected out tensor to have dtype ", options.dtype(),
              ", but got ", out.dtype(), " instead");
  TORCH_CHECK(options.device() == out.device(),
              "Expected out tensor to have device ", options.device(),
              ", but got ", out.device(), " instead");
  if (!at::native::resize_output(out, sizes)) return;
  // The op's preferred strides count only for a result that it shaped.
  if (!strides.empty()) {
    out.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  } else if (options.memory_format_opt().has_value()) {
    out.unsafeGetTensorImpl()->empty_tensor_restride(
        *options.memory_format_opt());
  }
}

void CheckInplace(const Tensor& self, IntArrayRef sizes,
                  const at::TensorOptions& options) {
  TORCH_CHECK(options.dtype() == self.dtype(),
              "Bad in-place call: input tensor dtype ", self.dtype(),
              " and output tensor dtype ", options.dtype(), " should match");
  TORCH_CHECK(options.device() == self.device(),
              "Bad in-place call: input tensor device ", self.device(),
              " and output tensor device ", options.device(), " should match");
  TORCH_CHECK(sizes == self.sizes(), "Bad in-place call: input tensor size ",
              self.sizes(), " and output tensor size ", sizes, " should match");
}

void RunFallback(const char* name, const char* overload,
                 torch::jit::Stack* stack) {
  const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow(
      (std::string("aten::") + name).c_str(), overload);
  // Optional arguments that the caller left away have their defaults.
  const auto& arguments = op.schema().arguments();
  for (size_t i = stack->size(); i < arguments.size(); ++i) {
    TORCH_INTERNAL_ASSERT(arguments[i].default_value().has_value(), name);
    stack->push_back(*arguments[i].default_value());
  }
  CpuFallback(op, stack);
}

void ThrowNotImplementedFor(const char* op, ScalarType type) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, '"', op, "\" not implemented for '",
                              c10::toString(type), "'");
}

DeviceScope::DeviceScope(c10::Device device) {
  if (device.has_index() && device.index() != CurrentDevice()) {
    previous_ = ExchangeDevice(device.index());
  }
}

DeviceScope::~DeviceScope() {
  if (previous_ >= 0) ExchangeDevice(previous_);
}

}  // namespace tvarant::torch_plugin
