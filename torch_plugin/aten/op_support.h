// What op files share: results, PyTorch's structured ops, the CPU fallback.
//
// A structured op keeps its shape, dtype and overlap rules in a "meta" class
// that PyTorch exports. FunctionalOp and OutOp complete such a class: the
// first creates its results, the second resizes and checks those given.
//
// Example (tanh.out):
//   Tensor& TanhOut(const Tensor& self, Tensor& out) {
//     OutOp<at::meta::structured_tanh> op(out);
//     op.meta(self);
//     RunPointwise(op, EmitTanh);
//     return op.Finish();
//   }

#ifndef TVARANT_TORCH_PLUGIN_ATEN_OP_SUPPORT_H_
#define TVARANT_TORCH_PLUGIN_ATEN_OP_SUPPORT_H_

#include <ATen/TensorIterator.h>
#include <ATen/TensorMeta.h>
#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/op_registration/adaption.h>
#include <ATen/core/stack.h>

#include <array>
#include <optional>
#include <type_traits>
#include <utility>

#include "proto/base/dtype.h"
#include "torch_plugin/aten/torch_versions.h"

namespace tvarant::torch_plugin {

using at::IntArrayRef;
using at::Scalar;
using at::ScalarType;
using at::Tensor;

// --- Results -------------------------------------------------------------

// A new tensor on `device`. Without strides: in the options' memory format.
Tensor CreateOut(IntArrayRef sizes, IntArrayRef strides,
                 const at::TensorOptions& options);
// A new contiguous tensor of like's device.
Tensor EmptyOn(c10::Device device, IntArrayRef sizes, ScalarType dtype);
inline Tensor EmptyLikeOf(const Tensor& like, IntArrayRef sizes) {
  return EmptyOn(like.device(), sizes, like.scalar_type());
}
inline Tensor EmptyLikeOf(const Tensor& like, IntArrayRef sizes,
                          ScalarType dtype) {
  return EmptyOn(like.device(), sizes, dtype);
}

// PyTorch's rules for a given output: dtype and device must fit, another
// shape is resized (with a warning if it wasn't empty).
void ResizeOut(const Tensor& out, IntArrayRef sizes, IntArrayRef strides,
               const at::TensorOptions& options);
void CheckInplace(const Tensor& self, IntArrayRef sizes,
                  const at::TensorOptions& options);

// A result that shares memory with an operand is made aside first.
class SafeResult {
 public:
  template <class... Operands>
  explicit SafeResult(const Tensor& result, const Operands&... operands)
      : result_(result) {
    if (result.numel() > 0 && (result.is_alias_of(operands) || ...)) {
      aside_ = EmptyLikeOf(result, result.sizes());
    }
  }
  const Tensor& get() const { return aside_.defined() ? aside_ : result_; }
  void Finish() const {
    if (aside_.defined()) result_.copy_(aside_);
  }

 private:
  const Tensor& result_;
  Tensor aside_;
};

// --- Structured ops ------------------------------------------------------

template <class Meta>
inline constexpr bool kIsIterator =
    std::is_base_of_v<at::TensorIteratorBase, Meta>;

// Creates the op's N results.
template <class Meta, int N = 1>
class FunctionalOp final : public Meta {
 public:
  const Tensor& maybe_get_output(int64_t index) override {
    return outputs_[static_cast<size_t>(index)];
  }
  void set_output_strided(int64_t index, IntArrayRef sizes, IntArrayRef strides,
                          at::TensorOptions options
                              TVARANT_NAMES_PARAMETER) override {
    set_output_raw_strided(index, sizes, strides,
                           options TVARANT_NAMES_ARGUMENT);
  }
  void set_output_raw_strided(
      int64_t index, IntArrayRef sizes, IntArrayRef strides,
      at::TensorOptions options TVARANT_NAMES_PARAMETER) override {
    Tensor& output = outputs_[static_cast<size_t>(index)];
    output = CreateOut(sizes, strides, options);
    if constexpr (kIsIterator<Meta>) {
      Meta::set_output_raw_strided(index, sizes, strides,
                                   options TVARANT_NAMES_ARGUMENT);
    }
  }

  const Tensor& result(int index = 0) const {
    return outputs_[static_cast<size_t>(index)];
  }
  Tensor Finish() { return std::move(outputs_[0]); }

 private:
  std::array<Tensor, N> outputs_;
};

// Writes to N given results. A result whose strides the op can't take is
// written through a copy (Finish).
template <class Meta, int N = 1>
class OutOp final : public Meta {
 public:
  enum class Mode { kOut, kInplace };

  template <class... Outputs>
  explicit OutOp(Tensor& first, Outputs&... rest)
      : outputs_{&first, &rest...} {}
  OutOp(Mode mode, Tensor& self) : mode_(mode), outputs_{&self} {}

  const Tensor& maybe_get_output(int64_t index) override {
    return result(static_cast<int>(index));
  }
  void set_output_strided(int64_t index, IntArrayRef sizes, IntArrayRef strides,
                          at::TensorOptions options
                              TVARANT_NAMES_PARAMETER) override {
    const Tensor& output = *outputs_[static_cast<size_t>(index)];
    Check(output, sizes, strides, options);
    if (!strides.empty() && output.strides() != strides) {
      proxies_[static_cast<size_t>(index)] = CreateOut(sizes, strides, options);
    }
    Complete(index, sizes, strides, options);
  }
  void set_output_raw_strided(
      int64_t index, IntArrayRef sizes, IntArrayRef strides,
      at::TensorOptions options TVARANT_NAMES_PARAMETER) override {
    Check(*outputs_[static_cast<size_t>(index)], sizes, strides, options);
    Complete(index, sizes, strides, options);
  }

  const Tensor& result(int index = 0) const {
    const Tensor& proxy = proxies_[static_cast<size_t>(index)];
    return proxy.defined() ? proxy : *outputs_[static_cast<size_t>(index)];
  }
  Tensor& Finish() {
    for (size_t i = 0; i < N; ++i) {
      if (proxies_[i].defined()) outputs_[i]->copy_(proxies_[i]);
    }
    return *outputs_[0];
  }

 private:
  void Check(const Tensor& output, IntArrayRef sizes, IntArrayRef strides,
             const at::TensorOptions& options) {
    if (mode_ == Mode::kInplace) {
      CheckInplace(output, sizes, options);
    } else {
      ResizeOut(output, sizes, strides, options);
    }
  }
  void Complete(int64_t index, IntArrayRef sizes, IntArrayRef strides,
                const at::TensorOptions& options) {
    if constexpr (kIsIterator<Meta>) {
      Meta::set_output_raw_strided(index, sizes, strides,
                                   options TVARANT_NAMES_ARGUMENT);
    }
  }

  Mode mode_ = Mode::kOut;
  std::array<Tensor*, N> outputs_;
  std::array<Tensor, N> proxies_;
};

// --- The CPU fallback ----------------------------------------------------

// Types that kernels compute with; the rest (complex, wide unsigned, ...)
// goes through the fallback.
constexpr bool HasKernels(ScalarType type) {
  switch (type) {
    case ScalarType::Bool:
    case ScalarType::Byte:
    case ScalarType::Char:
    case ScalarType::Short:
    case ScalarType::Int:
    case ScalarType::Long:
    case ScalarType::Half:
    case ScalarType::BFloat16:
    case ScalarType::Float:
    case ScalarType::Double:
      return true;
    default:
      return false;
  }
}

inline bool LacksKernels(const Tensor& tensor) {
  return tensor.defined() && !HasKernels(tensor.scalar_type());
}
inline bool LacksKernels(const std::optional<Tensor>& tensor) {
  return tensor.has_value() && LacksKernels(*tensor);
}
inline bool LacksKernels(const Scalar& scalar) { return scalar.isComplex(); }
inline bool LacksKernels(const std::optional<Scalar>& scalar) {
  return scalar.has_value() && scalar->isComplex();
}
inline bool LacksKernels(const std::optional<ScalarType>& type) {
  return type.has_value() && !HasKernels(*type);
}
inline bool LacksKernels(at::TensorList tensors) {
  for (const Tensor& tensor : tensors) {
    if (LacksKernels(tensor)) return true;
  }
  return false;
}
inline bool LacksKernels(const at::ITensorListRef& tensors) {
  for (const Tensor& tensor : tensors) {
    if (LacksKernels(tensor)) return true;
  }
  return false;
}
template <class T>
requires std::is_arithmetic_v<T>
constexpr bool LacksKernels(T) { return false; }
inline bool LacksKernels(IntArrayRef) { return false; }
inline bool LacksKernels(at::OptionalIntArrayRef) { return false; }
inline bool LacksKernels(std::optional<int64_t>) { return false; }
inline bool LacksKernels(c10::string_view) { return false; }
inline bool LacksKernels(const std::optional<c10::string_view>&) {
  return false;
}
inline bool LacksKernels(const std::optional<at::Generator>&) { return false; }

// True if an argument has a type that no kernel computes with.
template <class... Args>
inline bool NeedsFallback(const Args&... args) {
  return (LacksKernels(args) || ...);
}

// Runs aten::<name>.<overload> on the CPU; the stack holds its results.
void RunFallback(const char* name, const char* overload,
                 torch::jit::Stack* stack);

namespace internal {
inline c10::IValue ToIValue(const Tensor& value) { return value; }
inline c10::IValue ToIValue(c10::string_view value) {
  return std::string(value);
}
inline c10::IValue ToIValue(const std::optional<c10::string_view>& value) {
  return value.has_value() ? c10::IValue(std::string(*value)) : c10::IValue();
}
inline c10::IValue ToIValue(at::OptionalIntArrayRef value) {
  return value.has_value() ? c10::IValue(value->vec()) : c10::IValue();
}
inline c10::IValue ToIValue(IntArrayRef value) { return value.vec(); }
inline c10::IValue ToIValue(at::TensorList value) { return value.vec(); }
inline c10::IValue ToIValue(const at::ITensorListRef& value) {
  std::vector<Tensor> tensors;
  for (const Tensor& tensor : value) tensors.push_back(tensor);
  return tensors;
}
template <size_t N>
c10::IValue ToIValue(const std::array<bool, N>& value) {
  c10::List<bool> list;
  for (const bool element : value) list.push_back(element);
  return list;
}
template <class T>
c10::IValue ToIValue(const T& value) {
  return c10::IValue(value);
}
}  // namespace internal

// The op on the CPU, with its arguments in the order of its schema.
template <class... Args>
torch::jit::Stack Fallback(const char* name, const char* overload,
                           const Args&... args) {
  torch::jit::Stack stack;
  stack.reserve(sizeof...(args));
  (stack.push_back(internal::ToIValue(args)), ...);
  RunFallback(name, overload, &stack);
  return stack;
}
template <class... Args>
Tensor FallbackTensor(const char* name, const char* overload,
                      const Args&... args) {
  return Fallback(name, overload, args...)[0].toTensor();
}
// For out and in-place forms: `out` is among the arguments.
template <class... Args>
Tensor& FallbackInto(Tensor& out, const char* name, const char* overload,
                     const Args&... args) {
  Fallback(name, overload, args...);
  return out;
}

// --- Checks --------------------------------------------------------------

// Raises PyTorch's error unless all given tensors lie on one device.
//   DeviceCheck("mm").Add(self, "self").Add(mat2, "mat2");
class DeviceCheck {
 public:
  explicit DeviceCheck(const char* op) : op_(op) {}
  template <class TensorOrOptional>
  DeviceCheck& Add(const TensorOrOptional& tensor, const char* argument) {
    c10::impl::check_and_update_common_device(device_, tensor, op_, argument);
    return *this;
  }

 private:
  const char* op_;
  std::optional<c10::Device> device_;
};

[[noreturn]] void ThrowNotImplementedFor(const char* op, ScalarType type);
inline void CheckHasKernels(const char* op, ScalarType type) {
  if (!HasKernels(type)) ThrowNotImplementedFor(op, type);
}

// Makes `device` current while it lives.
class DeviceScope {
 public:
  explicit DeviceScope(c10::Device device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  c10::DeviceIndex previous_ = -1;  // -1: nothing to restore
};

inline bool OnDevice(const Tensor& tensor) {
  return tensor.device().type() == c10::DeviceType::PrivateUse1;
}

}  // namespace tvarant::torch_plugin

#endif  // TVARANT_TORCH_PLUGIN_ATEN_OP_SUPPORT_H_
