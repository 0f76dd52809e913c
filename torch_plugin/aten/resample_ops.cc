// Upsampling, padding by reflection and replication.

#include <ATen/native/Padding.h>
#include <ATen/ops/_upsample_bicubic2d_aa_backward_meta.h>
#include <ATen/ops/_upsample_bicubic2d_aa_meta.h>
#include <ATen/ops/_upsample_bilinear2d_aa_backward_meta.h>
#include <ATen/ops/_upsample_bilinear2d_aa_meta.h>
#include <ATen/ops/_upsample_nearest_exact1d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact1d_meta.h>
#include <ATen/ops/_upsample_nearest_exact2d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact2d_meta.h>
#include <ATen/ops/_upsample_nearest_exact3d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact3d_meta.h>
#include <ATen/ops/reflection_pad1d_backward_meta.h>
#include <ATen/ops/reflection_pad1d_meta.h>
#include <ATen/ops/reflection_pad3d_backward_meta.h>
#include <ATen/ops/reflection_pad3d_meta.h>
#include <ATen/ops/replication_pad1d_backward_meta.h>
#include <ATen/ops/replication_pad1d_meta.h>
#include <ATen/ops/replication_pad2d_meta.h>
#include <ATen/ops/replication_pad3d_meta.h>
#include <ATen/ops/upsample_bicubic2d_backward_meta.h>
#include <ATen/ops/upsample_bicubic2d_meta.h>
#include <ATen/ops/upsample_bilinear2d_backward_meta.h>
#include <ATen/ops/upsample_bilinear2d_meta.h>
#include <ATen/ops/upsample_linear1d_backward_meta.h>
#include <ATen/ops/upsample_linear1d_meta.h>
#include <ATen/ops/upsample_nearest1d_backward_meta.h>
#include <ATen/ops/upsample_nearest1d_meta.h>
#include <ATen/ops/upsample_nearest2d_backward_meta.h>
#include <ATen/ops/upsample_nearest2d_meta.h>
#include <ATen/ops/upsample_nearest3d_backward_meta.h>
#include <ATen/ops/upsample_nearest3d_meta.h>
#include <ATen/ops/upsample_trilinear3d_backward_meta.h>
#include <ATen/ops/upsample_trilinear3d_meta.h>
#include <torch/library.h>

#include <array>

#include "torch_plugin/aten/launch.h"
#include "torch_plugin/aten/op_support.h"
#include "torch_plugin/aten/volume.h"

namespace tvarant::torch_plugin {
namespace {

namespace meta = at::meta;

// As in kernels.md.
enum Mode : int64_t {
  kNearest = 0,
  kNearestExact = 1,
  kLinear = 2,
  kCubic = 3,
  kReflect = 4,
  kReplicate = 5,
  kLinearAntialias = 6,
  kCubicAntialias = 7,
};

struct Resampling {
  int64_t mode;
  int64_t space;
  bool align_corners = false;
  Triple padding{0, 0, 0};  // before
  std::array<std::optional<double>, 3> scales{};
};

// The extent of an element of `y` in `x`.
double ScaleOf(const Resampling& r, size_t dim, int64_t x, int64_t y) {
  if (r.align_corners) {
    return y > 1 ? static_cast<double>(x - 1) / static_cast<double>(y - 1) : 0;
  }
  if (r.scales[dim].has_value() && *r.scales[dim] > 0) {
    return 1.0 / *r.scales[dim];
  }
  return y == 0 ? 0 : static_cast<double>(x) / static_cast<double>(y);
}

void Launch(Kernel kernel, const Resampling& r, const Tensor& dst,
            const Tensor& src) {
  const Volume to(dst, r.space), from(src, r.space);
  const bool forward = kernel == Kernel::kResample;
  LaunchBuilder launch(kernel, dst.device());
  AddDst(launch, to);
  AddSrc(launch, from);
  launch.Int(r.mode).Int(r.align_corners ? 1 : 0);
  AddInts(launch, r.padding);
  for (size_t i = 0; i < 3; ++i) {
    const int64_t x = (forward ? from : to).sizes[2 + i];
    const int64_t y = (forward ? to : from).sizes[2 + i];
    launch.Float(ScaleOf(r, i, x, y));
  }
  launch.Run();
}

void RunForward(const Resampling& r, const Tensor& x, const Tensor& y) {
  if (y.numel() > 0) Launch(Kernel::kResample, r, y, x);
}

void RunBackward(const Resampling& r, const Tensor& grad_output,
                 const Tensor& grad_input) {
  if (grad_input.numel() == 0) return;
  const Tensor dy = grad_output.contiguous();
  ThroughContiguous(grad_input, [&](const Tensor& dx) {
    if (dy.numel() == 0) {
      dx.zero_();
    } else {
      Launch(Kernel::kResampleBackward, r, dx, dy);
    }
  });
}

using Scale = std::optional<double>;

// Nearest also copies bytes; the rest computes. The CPU refuses antialiased
// half types.
bool IsResampled(const Tensor& tensor, int64_t mode) {
  if (mode == kLinearAntialias || mode == kCubicAntialias) {
    return tensor.scalar_type() == ScalarType::Float ||
           tensor.scalar_type() == ScalarType::Double;
  }
  return tensor.is_floating_point() ||
         (tensor.scalar_type() == ScalarType::Byte &&
          (mode == kNearest || mode == kNearestExact));
}

template <class Meta, class Shape>
Tensor& Upsample(const char* name, const Resampling& r, const Tensor& self,
                 Tensor& out, const Shape& shape) {
  DeviceCheck(name).Add(out, "out").Add(self, "self");
  if (!IsResampled(self, r.mode)) {
    ThrowNotImplementedFor(name, self.scalar_type());
  }
  OutOp<Meta> op(out);
  shape(op);
  RunForward(r, self, op.result());
  return op.Finish();
}

template <class Meta, class Shape>
Tensor& UpsampleBackward(const char* name, const Resampling& r,
                         const Tensor& grad_output, Tensor& grad_input,
                         const Shape& shape) {
  DeviceCheck(name)
      .Add(grad_input, "grad_input")
      .Add(grad_output, "grad_output");
  if (!grad_output.is_floating_point() || !IsResampled(grad_output, r.mode)) {
    ThrowNotImplementedFor(name, grad_output.scalar_type());
  }
  OutOp<Meta> op(grad_input);
  shape(op);
  RunBackward(r, grad_output, op.result());
  return op.Finish();
}

// name(self, output_size, scales...)
#define TVARANT_PLAIN(name, space, mode, parameters, arguments, list)          \
  Tensor& name(const Tensor& self, IntArrayRef output_size,                    \
               TVARANT_ID parameters, Tensor& out) {                           \
    const Resampling r{mode, space, false, {0, 0, 0}, {{TVARANT_ID list}}};    \
    return Upsample<meta::structured_##name>(                                  \
        #name, r, self, out,                                                   \
        [&](auto& op) { op.meta(self, output_size, TVARANT_ID arguments); });  \
  }                                                                            \
  Tensor& name##_backward(const Tensor& grad_output, IntArrayRef output_size,  \
                          IntArrayRef input_size, TVARANT_ID parameters,       \
                          Tensor& grad_input) {                                \
    const Resampling r{mode, space, false, {0, 0, 0}, {{TVARANT_ID list}}};    \
    return UpsampleBackward<meta::structured_##name##_backward>(               \
        #name "_backward", r, grad_output, grad_input, [&](auto& op) {         \
          op.meta(grad_output, output_size, input_size, TVARANT_ID arguments); \
        });                                                                    \
  }

// name(self, output_size, align_corners, scales...)
#define TVARANT_ALIGNED(name, space, mode, parameters, arguments, list)        \
  Tensor& name(const Tensor& self, IntArrayRef output_size,                    \
               bool align_corners, TVARANT_ID parameters, Tensor& out) {       \
    if (self.scalar_type() == ScalarType::Byte) {                              \
      return FallbackInto(out, #name, "out", self, output_size, align_corners, \
                          TVARANT_ID arguments, out);                          \
    }                                                                          \
    const Resampling r{                                                        \
        mode, space, align_corners, {0, 0, 0}, {{TVARANT_ID list}}};           \
    return Upsample<meta::structured_##name>(                                  \
        #name, r, self, out, [&](auto& op) {                                   \
          op.meta(self, output_size, align_corners, TVARANT_ID arguments);     \
        });                                                                    \
  }                                                                            \
  Tensor& name##_backward(const Tensor& grad_output, IntArrayRef output_size,  \
                          IntArrayRef input_size, bool align_corners,          \
                          TVARANT_ID parameters, Tensor& grad_input) {         \
    const Resampling r{                                                        \
        mode, space, align_corners, {0, 0, 0}, {{TVARANT_ID list}}};           \
    return UpsampleBackward<meta::structured_##name##_backward>(               \
        #name "_backward", r, grad_output, grad_input, [&](auto& op) {         \
          op.meta(grad_output, output_size, input_size, align_corners,         \
                  TVARANT_ID arguments);                                       \
        });                                                                    \
  }
#define TVARANT_ID(...) __VA_ARGS__
// Parameters, arguments and the scales of d, h, w.
#define TVARANT_1D (Scale w), (w), ({}, {}, w)
#define TVARANT_2D (Scale h, Scale w), (h, w), ({}, h, w)
#define TVARANT_3D (Scale d, Scale h, Scale w), (d, h, w), (d, h, w)
#define TVARANT_EXPAND(macro, ...) macro(__VA_ARGS__)

TVARANT_EXPAND(TVARANT_PLAIN, upsample_nearest1d, 1, kNearest, TVARANT_1D)
TVARANT_EXPAND(TVARANT_PLAIN, upsample_nearest2d, 2, kNearest, TVARANT_2D)
TVARANT_EXPAND(TVARANT_PLAIN, upsample_nearest3d, 3, kNearest, TVARANT_3D)
TVARANT_EXPAND(TVARANT_PLAIN, _upsample_nearest_exact1d, 1, kNearestExact,
               TVARANT_1D)
TVARANT_EXPAND(TVARANT_PLAIN, _upsample_nearest_exact2d, 2, kNearestExact,
               TVARANT_2D)
TVARANT_EXPAND(TVARANT_PLAIN, _upsample_nearest_exact3d, 3, kNearestExact,
               TVARANT_3D)
TVARANT_EXPAND(TVARANT_ALIGNED, upsample_linear1d, 1, kLinear, TVARANT_1D)
TVARANT_EXPAND(TVARANT_ALIGNED, upsample_bilinear2d, 2, kLinear, TVARANT_2D)
TVARANT_EXPAND(TVARANT_ALIGNED, upsample_trilinear3d, 3, kLinear, TVARANT_3D)
TVARANT_EXPAND(TVARANT_ALIGNED, upsample_bicubic2d, 2, kCubic, TVARANT_2D)
TVARANT_EXPAND(TVARANT_ALIGNED, _upsample_bilinear2d_aa, 2, kLinearAntialias,
               TVARANT_2D)
TVARANT_EXPAND(TVARANT_ALIGNED, _upsample_bicubic2d_aa, 2, kCubicAntialias,
               TVARANT_2D)

// --- Padding -----------------------------------------------------------------

// padding counts from the last dimension: {left, right, top, bottom, ...}.
Resampling PaddingOf(int64_t mode, int64_t space, IntArrayRef padding) {
  Resampling r{mode, space, false, {0, 0, 0}, {}};
  for (int64_t i = 0; i < space; ++i) {
    r.padding[static_cast<size_t>(2 - i)] = padding[static_cast<size_t>(2 * i)];
  }
  return r;
}

constexpr const char* NameOf(int64_t mode, int64_t space, bool backward) {
  constexpr const char* kNames[2][3][2] = {
      {{"reflection_pad1d", "reflection_pad1d_backward"},
       {"reflection_pad2d", "reflection_pad2d_backward"},
       {"reflection_pad3d", "reflection_pad3d_backward"}},
      {{"replication_pad1d", "replication_pad1d_backward"},
       {"replication_pad2d", "replication_pad2d_backward"},
       {"replication_pad3d", "replication_pad3d_backward"}}};
  return kNames[mode == kReplicate][space - 1][backward];
}

template <class Meta, int64_t mode, int64_t space>
Tensor& PadOut(const Tensor& self, IntArrayRef padding, Tensor& out) {
  DeviceCheck(NameOf(mode, space, false)).Add(out, "out").Add(self, "self");
  if (NeedsFallback(self, out) || !self.is_floating_point()) {
    return FallbackInto(out, NameOf(mode, space, false), "out", self, padding,
                        out);
  }
  OutOp<Meta> op(out);
  op.meta(self, padding);
  const SafeResult safe(op.result(), self);
  RunForward(PaddingOf(mode, space, padding), self, safe.get());
  safe.Finish();
  return op.Finish();
}

template <class Meta, int64_t mode, int64_t space>
Tensor& PadBackwardOut(const Tensor& grad_output, const Tensor& self,
                       IntArrayRef padding, Tensor& grad_input) {
  if (NeedsFallback(grad_output, self, grad_input) ||
      !grad_output.is_floating_point()) {
    return FallbackInto(grad_input, NameOf(mode, space, true), "grad_input",
                        grad_output, self, padding, grad_input);
  }
  OutOp<Meta> op(grad_input);
  op.meta(grad_output, self, padding);
  RunBackward(PaddingOf(mode, space, padding), grad_output, op.result());
  return op.Finish();
}

// --- Those without a meta class ---

void CheckPadded(const Tensor& self, int64_t space, IntArrayRef padding,
                 const Tensor& grad_output) {
  for (int64_t i = 0; i < space; ++i) {
    const size_t at = static_cast<size_t>(2 * i);
    const int64_t want = self.size(-1 - i) + padding[at] + padding[at + 1];
    TORCH_CHECK(grad_output.size(-1 - i) == want,
                "grad_output size unexpected in dimension ", self.dim() - 1 - i,
                ". Expected: ", want, ", Got: ", grad_output.size(-1 - i));
  }
}

Tensor& ReflectionPad2dOut(const Tensor& self, IntArrayRef padding,
                           Tensor& out) {
  if (NeedsFallback(self, out) || !self.is_floating_point()) {
    return FallbackInto(out, "reflection_pad2d", "out", self, padding, out);
  }
  at::native::padding::check_valid_input<2>(self, padding);
  at::DimVector sizes(self.sizes());
  for (size_t i = 0; i < 2; ++i) {
    const int64_t size = self.size(-1 - static_cast<int64_t>(i));
    const int64_t before = padding[2 * i], after = padding[2 * i + 1];
    TORCH_CHECK(before < size && after < size,
                "Argument #4: Padding size should be less than the "
                "corresponding input dimension, but got: padding (",
                before, ", ", after, ") at dimension ",
                self.dim() - 1 - static_cast<int64_t>(i), " of input ",
                self.sizes());
    sizes[sizes.size() - 1 - i] = size + before + after;
  }
  const int64_t width = sizes[sizes.size() - 1],
                height = sizes[sizes.size() - 2];
  TORCH_CHECK(width >= 1 || height >= 1, "input (H: ", self.size(-2),
              ", W: ", self.size(-1),
              ") is too small. Calculated output H: ", height, " W: ", width);
  ResizeOut(out, sizes, {},
            self.options().memory_format(self.suggest_memory_format()));
  const SafeResult safe(out, self);
  RunForward(PaddingOf(kReflect, 2, padding), self, safe.get());
  safe.Finish();
  return out;
}

// The meta class doesn't know that the CPU keeps channels last.
Tensor ReplicationPad2d(const Tensor& self, IntArrayRef padding) {
  if (NeedsFallback(self) || !self.is_floating_point()) {
    return FallbackTensor("replication_pad2d", "", self, padding);
  }
  FunctionalOp<meta::structured_replication_pad2d> op;
  op.meta(self, padding);
  Tensor result = op.Finish();
  if (IsChannelsLast(self)) {
    result =
        CreateOut(result.sizes(), {},
                  self.options().memory_format(self.suggest_memory_format()));
  }
  RunForward(PaddingOf(kReplicate, 2, padding), self, result);
  return result;
}

Tensor ReflectionPad2d(const Tensor& self, IntArrayRef padding) {
  Tensor out = EmptyLikeOf(self, {0});
  ReflectionPad2dOut(self, padding, out);
  return out;
}

template <int64_t mode, int64_t space>
Tensor& PlainPadBackwardOut(const Tensor& grad_output, const Tensor& self,
                            IntArrayRef padding, Tensor& grad_input) {
  if (NeedsFallback(grad_output, self, grad_input) ||
      !grad_output.is_floating_point()) {
    return FallbackInto(grad_input, NameOf(mode, space, true), "grad_input",
                        grad_output, self, padding, grad_input);
  }
  TORCH_CHECK(padding.size() == 2 * space, "padding size is expected to be ",
              2 * space);
  TORCH_CHECK(grad_output.dim() == self.dim(),
              "grad_output has another number of dimensions than the input");
  CheckPadded(self, space, padding, grad_output);
  ResizeOut(grad_input, self.sizes(), {},
            self.options().memory_format(self.suggest_memory_format()));
  RunBackward(PaddingOf(mode, space, padding), grad_output, grad_input);
  return grad_input;
}

template <int64_t mode, int64_t space>
Tensor PlainPadBackward(const Tensor& grad_output, const Tensor& self,
                        IntArrayRef padding) {
  Tensor grad_input = EmptyLikeOf(self, {0});
  PlainPadBackwardOut<mode, space>(grad_output, self, padding, grad_input);
  return grad_input;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
#define TVARANT_REGISTER(name)          \
  m.impl(#name ".out", TORCH_FN(name)); \
  m.impl(#name "_backward.grad_input", TORCH_FN(name##_backward));
  TVARANT_REGISTER(upsample_nearest1d)
  TVARANT_REGISTER(upsample_nearest2d)
  TVARANT_REGISTER(upsample_nearest3d)
  TVARANT_REGISTER(_upsample_nearest_exact1d)
  TVARANT_REGISTER(_upsample_nearest_exact2d)
  TVARANT_REGISTER(_upsample_nearest_exact3d)
  TVARANT_REGISTER(upsample_linear1d)
  TVARANT_REGISTER(upsample_bilinear2d)
  TVARANT_REGISTER(upsample_trilinear3d)
  TVARANT_REGISTER(upsample_bicubic2d)
  TVARANT_REGISTER(_upsample_bilinear2d_aa)
  TVARANT_REGISTER(_upsample_bicubic2d_aa)
#undef TVARANT_REGISTER
  m.impl("reflection_pad1d.out",
         &PadOut<meta::structured_reflection_pad1d, kReflect, 1>);
  m.impl("reflection_pad2d", &ReflectionPad2d);
  m.impl("reflection_pad2d.out", &ReflectionPad2dOut);
  m.impl("reflection_pad3d.out",
         &PadOut<meta::structured_reflection_pad3d, kReflect, 3>);
  m.impl("replication_pad1d.out",
         &PadOut<meta::structured_replication_pad1d, kReplicate, 1>);
  m.impl("replication_pad2d", &ReplicationPad2d);
  m.impl("replication_pad2d.out",
         &PadOut<meta::structured_replication_pad2d, kReplicate, 2>);
  m.impl("replication_pad3d.out",
         &PadOut<meta::structured_replication_pad3d, kReplicate, 3>);
  m.impl(
      "reflection_pad1d_backward.grad_input",
      &PadBackwardOut<meta::structured_reflection_pad1d_backward, kReflect, 1>);
  m.impl("reflection_pad2d_backward", &PlainPadBackward<kReflect, 2>);
  m.impl("reflection_pad2d_backward.grad_input",
         &PlainPadBackwardOut<kReflect, 2>);
  m.impl(
      "reflection_pad3d_backward.grad_input",
      &PadBackwardOut<meta::structured_reflection_pad3d_backward, kReflect, 3>);
  m.impl("replication_pad1d_backward.grad_input",
         &PadBackwardOut<meta::structured_replication_pad1d_backward,
                         kReplicate, 1>);
  m.impl("replication_pad2d_backward", &PlainPadBackward<kReplicate, 2>);
  m.impl("replication_pad2d_backward.grad_input",
         &PlainPadBackwardOut<kReplicate, 2>);
  m.impl("replication_pad3d_backward", &PlainPadBackward<kReplicate, 3>);
  m.impl("replication_pad3d_backward.grad_input",
         &PlainPadBackwardOut<kReplicate, 3>);
}

}  // namespace tvarant::torch_plugin
