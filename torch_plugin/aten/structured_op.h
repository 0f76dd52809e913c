// StructuredOp: the three forms of a structured element-wise op, from its meta
// class and its emitter.
//
// Example:
//   using Tanh = StructuredOp<"tanh", "", "out", &meta::structured_tanh::meta,
//                             EmitUnary<PointwiseOp::kTanh>, Fast::kFloat>;
//   TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { Tanh::Register(m); }

#ifndef TVARANT_TORCH_PLUGIN_ATEN_STRUCTURED_OP_H_
#define TVARANT_TORCH_PLUGIN_ATEN_STRUCTURED_OP_H_

#include <torch/library.h>

#include <algorithm>
#include <array>
#include <string>
#include <type_traits>

#include "torch_plugin/aten/op_support.h"
#include "torch_plugin/aten/pointwise.h"

namespace tvarant::torch_plugin {

// A string as a template argument.
template <size_t N>
struct Name {
  constexpr Name(const char (&literal)[N]) {  // NOLINT: implicit on purpose
    std::copy_n(literal, N, text.begin());
  }
  constexpr const char* c_str() const { return text.data(); }
  std::array<char, N> text;
};

// Operand types for which a hot op may skip the iterator.
enum class Fast { kNever, kFloat, kReal };

// "name", or "name.overload".
inline std::string FullName(std::string name, const char* overload) {
  if (*overload != '\0') name.append(".").append(overload);
  return name;
}

namespace internal {

// The op's parameters: its Scalar and double arguments, in order.
struct ParameterList {
  std::array<Scalar, kMaxPointwiseScalars> values;
  size_t size = 0;

  void Take(const Scalar& value) { values[size++] = value; }
  void Take(double value) { values[size++] = value; }
  template <class T>
  void Take(const T&) {}
};

template <class... Args>
ParameterList ParametersOf(const Args&... args) {
  ParameterList list;
  (list.Take(args), ...);
  return list;
}

template <class... Args>
inline constexpr bool kIsTensorOnly = (std::is_same_v<Args, const Tensor&> &&
                                       ...);

}  // namespace internal

template <Name name, Name overload, Name out_overload, auto meta, EmitFn emit,
          Fast fast = Fast::kNever>
struct StructuredOp;

template <Name name, Name overload, Name out_overload, EmitFn emit, Fast fast,
          class Meta, class... Rest,
          void (Meta::*meta)(const Tensor& self, Rest...)>
struct StructuredOp<name, overload, out_overload, meta, emit, fast> {
  static constexpr bool kHasFastPath = fast != Fast::kNever &&
                                       sizeof...(Rest) <= 1 &&
                                       internal::kIsTensorOnly<Rest...>;

  static Tensor Functional(const Tensor& self, Rest... rest) {
    if constexpr (kHasFastPath) {
      if (MayBeFast(self)) {
        Tensor result = [&] {
          if constexpr (sizeof...(Rest) == 0) return FastUnary(emit, self);
          if constexpr (sizeof...(Rest) == 1) {
            return FastBinary(emit, self, rest...);
          }
        }();
        if (result.defined()) return result;
      }
    }
    if (NeedsFallback(self, rest...)) {
      return FallbackTensor(Base(), overload.c_str(), self, rest...);
    }
    FunctionalOp<Meta> op;
    (op.*meta)(self, rest...);
    Run(op, rest...);
    return op.Finish();
  }

  static Tensor& Inplace(Tensor& self, Rest... rest) {
    if (IntoFast(self, rest..., self)) return self;
    if (NeedsFallback(self, rest...)) {
      return FallbackInto(self, InplaceBase(), overload.c_str(), self, rest...);
    }
    OutOp<Meta> op(OutOp<Meta>::Mode::kInplace, self);
    (op.*meta)(self, rest...);
    Run(op, rest...);
    return op.Finish();
  }

  static Tensor& Out(const Tensor& self, Rest... rest, Tensor& out) {
    if (IntoFast(self, rest..., out)) return out;
    if (NeedsFallback(self, rest..., out)) {
      return FallbackInto(out, Base(), out_overload.c_str(), self, rest...,
                          out);
    }
    OutOp<Meta> op(out);
    (op.*meta)(self, rest...);
    Run(op, rest...);
    return op.Finish();
  }

  static void Register(torch::Library& m) {
    RegisterNoInplace(m);
    m.impl(FullName(InplaceBase(), overload.c_str()).c_str(), &Inplace);
  }
  static void RegisterNoInplace(torch::Library& m) {
    m.impl(FullName(Base(), overload.c_str()).c_str(), &Functional);
    m.impl(FullName(Base(), out_overload.c_str()).c_str(), &Out);
  }

 private:
  static constexpr const char* Base() { return name.c_str(); }
  // Made at first use: registration runs while statics are initialised.
  static const char* InplaceBase() {
    static const std::string base = std::string(name.c_str()) + "_";
    return base.c_str();
  }

  static bool MayBeFast(const Tensor& self) {
    return fast == Fast::kReal || c10::isFloatingType(self.scalar_type());
  }
  template <class... Operands>
  static bool IntoFast(const Tensor& self, const Operands&... operands) {
    if constexpr (kHasFastPath) {
      if (!MayBeFast(self)) return false;
      if constexpr (sizeof...(Rest) == 0) {
        return FastUnaryInto(emit, self, operands...);
      } else {
        return FastBinaryInto(emit, self, operands...);
      }
    }
    return false;
  }
  static void Run(at::TensorIteratorBase& op, const Rest&... rest) {
    const internal::ParameterList list = internal::ParametersOf(rest...);
    RunPointwise(op, emit, {list.values.data(), list.size});
  }
};

}  // namespace tvarant::torch_plugin

#endif  // TVARANT_TORCH_PLUGIN_ATEN_STRUCTURED_OP_H_
