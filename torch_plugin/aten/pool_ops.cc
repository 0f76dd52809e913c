// Max and average pooling in two and three dimensions, adaptive and not; the
// one-dimensional ops are made of these.

#include <ATen/native/AdaptivePooling.h>
#include <ATen/native/Pool.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/adaptive_max_pool2d_backward_meta.h>
#include <ATen/ops/adaptive_max_pool2d_meta.h>
#include <ATen/ops/adaptive_max_pool3d_backward_meta.h>
#include <ATen/ops/adaptive_max_pool3d_meta.h>
#include <ATen/ops/avg_pool2d_backward_meta.h>
#include <ATen/ops/avg_pool2d_meta.h>
#include <ATen/ops/avg_pool3d_backward_meta.h>
#include <ATen/ops/avg_pool3d_meta.h>
#include <ATen/ops/max_pool2d_with_indices_backward_meta.h>
#include <ATen/ops/max_pool2d_with_indices_meta.h>
#include <torch/library.h>

#include <tuple>

#include "torch_plugin/aten/launch.h"
#include "torch_plugin/aten/op_support.h"
#include "torch_plugin/aten/volume.h"

namespace tvarant::torch_plugin {
namespace {

namespace meta = at::meta;

struct Pool {
  int64_t space;
  bool adaptive = false;
  Triple kernel{1, 1, 1}, stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};
  bool count_padding = true;
  int64_t divisor = 0;

  static Pool Of(int64_t space, IntArrayRef kernel, IntArrayRef stride,
                 IntArrayRef padding, IntArrayRef dilation = 1) {
    Pool pool{space};
    pool.kernel = SpaceOf(kernel, space, 1);
    pool.stride = SpaceOf(stride.empty() ? kernel : stride, space, 1);
    pool.padding = SpaceOf(padding, space, 0);
    pool.dilation = SpaceOf(dilation, space, 1);
    return pool;
  }
  static Pool Adaptive(int64_t space) {
    Pool pool{space};
    pool.adaptive = true;
    return pool;
  }
  Pool Average(bool count, std::optional<int64_t> divisor_override) const {
    Pool pool = *this;
    pool.count_padding = count;
    pool.divisor = divisor_override.value_or(0);
    return pool;
  }
};

void AddWindows(LaunchBuilder& launch, const Pool& pool) {
  launch.Int(pool.adaptive ? 1 : 0);
  AddInts(launch, pool.kernel);
  AddInts(launch, pool.stride);
  AddInts(launch, pool.padding);
}

bool IsReal(const Tensor& tensor) {
  return tensor.scalar_type() != ScalarType::Bool;
}

bool IsAveraged(const Tensor& tensor) {
  return tensor.is_floating_point() || tensor.scalar_type() == ScalarType::Long;
}

void RunMaxPool(const Tensor& x, const Pool& pool, const Tensor& y,
                const Tensor& indices) {
  if (y.numel() == 0) return;
  LaunchBuilder launch(Kernel::kMaxPool, x.device());
  AddDst(launch, Volume(y, pool.space));
  AddDst(launch, Volume(indices, pool.space));
  AddSrc(launch, Volume(x, pool.space));
  AddWindows(launch, pool);
  AddInts(launch, pool.dilation);
  launch.Run();
}

// Each gradient goes where the maximum was.
void RunMaxPoolBackward(const Tensor& grad_output, const Tensor& indices,
                        int64_t space, const Tensor& grad_input) {
  if (grad_input.numel() == 0) return;
  const Tensor dy = grad_output.contiguous(), at = indices.contiguous();
  ThroughContiguous(grad_input, [&](const Tensor& dx) {
    dx.zero_();
    if (dy.numel() == 0) return;
    int64_t from = 1, to = 1;
    for (int64_t i = 1; i <= space; ++i) {
      from *= dy.size(-i);
      to *= dx.size(-i);
    }
    const int64_t planes = dy.numel() / from;
    const std::array<int64_t, 2> y_sizes{planes, from}, y_strides{from, 1};
    const std::array<int64_t, 2> x_sizes{planes, to}, x_strides{to, 1};
    LaunchBuilder launch(Kernel::kScatterAdd, dx.device());
    launch.DstAs(dx, x_sizes, x_strides);
    launch.SrcAs(at, y_sizes, y_strides).SrcAs(dy, y_sizes, y_strides);
    launch.Int(1);
    launch.Run();
  });
}

void AddAverage(LaunchBuilder& launch, const Pool& pool) {
  AddWindows(launch, pool);
  launch.Int(pool.count_padding ? 1 : 0).Int(pool.divisor);
}

void RunAvgPool(const Tensor& x, const Pool& pool, const Tensor& y) {
  if (y.numel() == 0) return;
  if (x.numel() == 0) {
    y.fill_(NAN);
    return;
  }
  LaunchBuilder launch(Kernel::kAvgPool, x.device());
  AddDst(launch, Volume(y, pool.space));
  AddSrc(launch, Volume(x, pool.space));
  AddAverage(launch, pool);
  launch.Run();
}

void RunAvgPoolBackward(const Tensor& grad_output, const Pool& pool,
                        const Tensor& grad_input) {
  if (grad_input.numel() == 0) return;
  if (grad_output.numel() == 0) {
    grad_input.zero_();
    return;
  }
  const Tensor dy = grad_output.contiguous();
  ThroughContiguous(grad_input, [&](const Tensor& dx) {
    LaunchBuilder launch(Kernel::kAvgPoolBackward, dx.device());
    AddDst(launch, Volume(dx, pool.space));
    AddSrc(launch, Volume(dy, pool.space));
    AddAverage(launch, pool);
    launch.Run();
  });
}

// --- max_pool --------------------------------------------------------------

std::tuple<Tensor&, Tensor&> MaxPool2dOut(const Tensor& self,
                                          IntArrayRef kernel_size,
                                          IntArrayRef stride,
                                          IntArrayRef padding,
                                          IntArrayRef dilation, bool ceil_mode,
                                          Tensor& out, Tensor& indices) {
  DeviceCheck("wrapper_PrivateUse1_max_pool2d_with_indices_out_out")
      .Add(out, "out")
      .Add(indices, "indices")
      .Add(self, "self");
  if (NeedsFallback(self, out) || !IsReal(self)) {
    Fallback("max_pool2d_with_indices", "out", self, kernel_size, stride,
             padding, dilation, ceil_mode, out, indices);
    return {out, indices};
  }
  OutOp<meta::structured_max_pool2d_with_indices, 2> op(out, indices);
  op.meta(self, kernel_size, stride, padding, dilation, ceil_mode);
  RunMaxPool(self, Pool::Of(2, kernel_size, stride, padding, dilation),
             op.result(0), op.result(1));
  op.Finish();
  return {out, indices};
}

Tensor& MaxPool2dBackwardOut(const Tensor& grad_output, const Tensor& self,
                             IntArrayRef kernel_size, IntArrayRef stride,
                             IntArrayRef padding, IntArrayRef dilation,
                             bool ceil_mode, const Tensor& indices,
                             Tensor& grad_input) {
  DeviceCheck(
      "wrapper_PrivateUse1_max_pool2d_with_indices_backward_out_grad_input")
      .Add(grad_input, "grad_input")
      .Add(grad_output, "grad_output")
      .Add(self, "self")
      .Add(indices, "indices");
  if (NeedsFallback(grad_output, self, grad_input)) {
    return FallbackInto(grad_input, "max_pool2d_with_indices_backward",
                        "grad_input", grad_output, self, kernel_size, stride,
                        padding, dilation, ceil_mode, indices, grad_input);
  }
  OutOp<meta::structured_max_pool2d_with_indices_backward> op(grad_input);
  op.meta(grad_output, self, kernel_size, stride, padding, dilation, ceil_mode,
          indices);
  RunMaxPoolBackward(grad_output, indices, 2, op.result());
  return op.Finish();
}

// Sizes and format of max_pool3d's results, after PyTorch's checks.
at::DimVector CheckMaxPool3d(const Tensor& self, IntArrayRef kernel_size,
                             IntArrayRef stride, IntArrayRef padding,
                             IntArrayRef dilation, bool ceil_mode,
                             const char* name) {
  TORCH_CHECK(kernel_size.size() == 1 || kernel_size.size() == 3,
              "max_pool3d: kernel_size must either be a single int, or a tuple "
              "of three ints");
  TORCH_CHECK(stride.empty() || stride.size() == 1 || stride.size() == 3,
              "max_pool3d: stride must either be omitted, a single int, or a "
              "tuple of three ints");
  TORCH_CHECK(padding.size() == 1 || padding.size() == 3,
              "max_pool3d: padding must either be a single int, or a tuple of "
              "three ints");
  TORCH_CHECK(dilation.size() == 1 || dilation.size() == 3,
              "max_pool3d: dilation must be either a single int, or a tuple of "
              "three ints");
  const Pool p = Pool::Of(3, kernel_size, stride, padding, dilation);
  TORCH_CHECK(self.dim() == 4 || self.dim() == 5, name,
              ": Expected 4D or 5D tensor for input, but got: ", self.sizes());
  Triple in, out;
  for (size_t i = 0; i < 3; ++i) {
    in[i] = self.size(static_cast<int64_t>(i) - 3);
    out[i] = at::native::pooling_output_shape<int64_t>(
        in[i], p.kernel[i], p.padding[i], p.stride[i], p.dilation[i],
        ceil_mode);
  }
  const auto narrow = [](int64_t x) { return static_cast<int>(x); };
  at::native::pool3d_shape_check(
      self, self.size(-4), narrow(p.kernel[0]), narrow(p.kernel[1]),
      narrow(p.kernel[2]), narrow(p.stride[0]), narrow(p.stride[1]),
      narrow(p.stride[2]), narrow(p.padding[0]), narrow(p.padding[1]),
      narrow(p.padding[2]), narrow(p.dilation[0]), narrow(p.dilation[1]),
      narrow(p.dilation[2]), in[0], in[1], in[2], out[0], out[1], out[2], name);
  at::DimVector sizes(self.sizes());
  std::copy(out.begin(), out.end(), sizes.end() - 3);
  return sizes;
}

std::tuple<Tensor&, Tensor&> MaxPool3dOut(const Tensor& self,
                                          IntArrayRef kernel_size,
                                          IntArrayRef stride,
                                          IntArrayRef padding,
                                          IntArrayRef dilation, bool ceil_mode,
                                          Tensor& out, Tensor& indices) {
  DeviceCheck("wrapper_PrivateUse1_out_max_pool3d_with_indices_out")
      .Add(out, "out")
      .Add(indices, "indices")
      .Add(self, "self");
  if (NeedsFallback(self, out) || !IsReal(self)) {
    Fallback("max_pool3d_with_indices", "out", self, kernel_size, stride,
             padding, dilation, ceil_mode, out, indices);
    return {out, indices};
  }
  const at::DimVector sizes =
      CheckMaxPool3d(self, kernel_size, stride, padding, dilation, ceil_mode,
                     "max_pool3d_with_indices()");
  const at::TensorOptions options =
      self.options().memory_format(self.suggest_memory_format());
  ResizeOut(out, sizes, {}, options);
  ResizeOut(indices, sizes, {}, options.dtype(ScalarType::Long));
  RunMaxPool(self, Pool::Of(3, kernel_size, stride, padding, dilation), out,
             indices);
  return {out, indices};
}

std::tuple<Tensor, Tensor> MaxPool3d(const Tensor& self,
                                     IntArrayRef kernel_size,
                                     IntArrayRef stride, IntArrayRef padding,
                                     IntArrayRef dilation, bool ceil_mode) {
  Tensor out = EmptyLikeOf(self, {0});
  Tensor indices = EmptyLikeOf(self, {0}, ScalarType::Long);
  MaxPool3dOut(self, kernel_size, stride, padding, dilation, ceil_mode, out,
               indices);
  return {out, indices};
}

Tensor& MaxPool3dBackwardOut(const Tensor& grad_output, const Tensor& self,
                             IntArrayRef kernel_size, IntArrayRef stride,
                             IntArrayRef padding, IntArrayRef dilation,
                             bool ceil_mode, const Tensor& indices,
                             Tensor& grad_input) {
  if (NeedsFallback(grad_output, self, grad_input)) {
    return FallbackInto(grad_input, "max_pool3d_with_indices_backward",
                        "grad_input", grad_output, self, kernel_size, stride,
                        padding, dilation, ceil_mode, indices, grad_input);
  }
  const at::DimVector sizes =
      CheckMaxPool3d(self, kernel_size, stride, padding, dilation, ceil_mode,
                     "max_pool3d_with_indices_backward()");
  TORCH_CHECK(grad_output.sizes() == sizes && indices.sizes() == sizes,
              "max_pool3d_with_indices_backward(): expected gradient and "
              "indices of sizes ",
              IntArrayRef(sizes), ", but got ", grad_output.sizes(), " and ",
              indices.sizes());
  ResizeOut(grad_input, self.sizes(), {},
            self.options().memory_format(self.suggest_memory_format()));
  RunMaxPoolBackward(grad_output, indices, 3, grad_input);
  return grad_input;
}

Tensor MaxPool3dBackward(const Tensor& grad_output, const Tensor& self,
                         IntArrayRef kernel_size, IntArrayRef stride,
                         IntArrayRef padding, IntArrayRef dilation,
                         bool ceil_mode, const Tensor& indices) {
  Tensor grad_input = EmptyLikeOf(self, {0});
  MaxPool3dBackwardOut(grad_output, self, kernel_size, stride, padding,
                       dilation, ceil_mode, indices, grad_input);
  return grad_input;
}

// --- avg_pool ----------------------------------------------------------------

template <class Meta, int space>
Tensor& AvgPoolOut(const Tensor& self, IntArrayRef kernel_size,
                   IntArrayRef stride, IntArrayRef padding, bool ceil_mode,
                   bool count_include_pad,
                   std::optional<int64_t> divisor_override, Tensor& out) {
  constexpr const char* kName = space == 2 ? "avg_pool2d" : "avg_pool3d";
  DeviceCheck(kName).Add(out, "out").Add(self, "self");
  if (NeedsFallback(self, out) || !IsAveraged(self)) {
    return FallbackInto(out, kName, "out", self, kernel_size, stride, padding,
                        ceil_mode, count_include_pad, divisor_override, out);
  }
  OutOp<Meta> op(out);
  op.meta(self, kernel_size, stride, padding, ceil_mode, count_include_pad,
          divisor_override);
  RunAvgPool(self,
             Pool::Of(space, kernel_size, stride, padding)
                 .Average(count_include_pad, divisor_override),
             op.result());
  return op.Finish();
}

template <class Meta, int space>
Tensor& AvgPoolBackwardOut(const Tensor& grad_output, const Tensor& self,
                           IntArrayRef kernel_size, IntArrayRef stride,
                           IntArrayRef padding, bool ceil_mode,
                           bool count_include_pad,
                           std::optional<int64_t> divisor_override,
                           Tensor& grad_input) {
  constexpr const char* kName =
      space == 2 ? "avg_pool2d_backward" : "avg_pool3d_backward";
  DeviceCheck(kName)
      .Add(grad_input, "grad_input")
      .Add(grad_output, "grad_output")
      .Add(self, "self");
  if (NeedsFallback(grad_output, self, grad_input) || !IsAveraged(self)) {
    return FallbackInto(grad_input, kName, "grad_input", grad_output, self,
                        kernel_size, stride, padding, ceil_mode,
                        count_include_pad, divisor_override, grad_input);
  }
  OutOp<Meta> op(grad_input);
  op.meta(grad_output, self, kernel_size, stride, padding, ceil_mode,
          count_include_pad, divisor_override);
  RunAvgPoolBackward(grad_output,
                     Pool::Of(space, kernel_size, stride, padding)
                         .Average(count_include_pad, divisor_override),
                     op.result());
  return op.Finish();
}

// --- Adaptive ----------------------------------------------------------------

template <int space>
constexpr const char* AdaptiveName() {
  return space == 2 ? "adaptive_avg_pool2d" : "adaptive_avg_pool3d";
}

// Sizes of the result, after PyTorch's checks.
template <int space>
at::DimVector CheckAdaptive(const Tensor& self, IntArrayRef output_size) {
  TORCH_CHECK(output_size.size() == space, AdaptiveName<space>(),
              ": output_size must be ", space);
  const int64_t dims = self.dim();
  TORCH_CHECK(dims == space + 1 || dims == space + 2, AdaptiveName<space>(),
              "(): Expected ", space + 1, "D or ", space + 2,
              "D tensor, but got ", self.sizes());
  for (int64_t i = -space; i < 0; ++i) {
    TORCH_CHECK(self.size(i) > 0, AdaptiveName<space>(),
                "(): Expected input to have non-zero size for non-batch "
                "dimensions, but input has sizes ",
                self.sizes(), " with dimension ", i + dims, " being empty");
  }
  at::DimVector sizes(self.sizes());
  for (size_t i = 0; i < space; ++i) {
    TORCH_CHECK(output_size[i] >= 0, AdaptiveName<space>(),
                ": elements of output_size must be greater than or equal to 0 "
                "but received ",
                output_size);
    sizes[sizes.size() - space + i] = output_size[i];
  }
  return sizes;
}

template <int space>
Tensor& AdaptiveAvgPoolOut(const Tensor& self, IntArrayRef output_size,
                           Tensor& out) {
  DeviceCheck(AdaptiveName<space>()).Add(out, "out").Add(self, "self");
  if (NeedsFallback(self, out) || !self.is_floating_point()) {
    return FallbackInto(out, AdaptiveName<space>(), "out", self, output_size,
                        out);
  }
  const at::DimVector sizes = CheckAdaptive<space>(self, output_size);
  ResizeOut(out, sizes, {},
            self.options().memory_format(self.suggest_memory_format()));
  const SafeResult safe(out, self);
  RunAvgPool(self, Pool::Adaptive(space), safe.get());
  safe.Finish();
  return out;
}

template <int space>
Tensor AdaptiveAvgPool(const Tensor& self, IntArrayRef output_size) {
  Tensor out = EmptyLikeOf(self, {0});
  AdaptiveAvgPoolOut<space>(self, output_size, out);
  return out;
}

template <int space>
Tensor& AdaptiveAvgPoolBackwardOut(const Tensor& grad_output,
                                   const Tensor& self, Tensor& grad_input) {
  at::native::adaptive_pool_empty_output_check(
      grad_output, space == 2 ? "adaptive_avg_pool2d_backward"
                              : "adaptive_avg_pool3d_backward");
  TORCH_CHECK(grad_output.scalar_type() == self.scalar_type(),
              "expected dtype ", self.scalar_type(),
              " for `grad_output` but "
              "got dtype ",
              grad_output.scalar_type());
  ResizeOut(grad_input, self.sizes(), {},
            self.options().memory_format(self.suggest_memory_format()));
  RunAvgPoolBackward(grad_output, Pool::Adaptive(space), grad_input);
  return grad_input;
}

template <int space>
Tensor AdaptiveAvgPoolBackward(const Tensor& grad_output, const Tensor& self) {
  if (NeedsFallback(grad_output, self) || !self.is_floating_point()) {
    return FallbackTensor(space == 2 ? "_adaptive_avg_pool2d_backward"
                                     : "_adaptive_avg_pool3d_backward",
                          "", grad_output, self);
  }
  Tensor grad_input = EmptyLikeOf(self, {0});
  AdaptiveAvgPoolBackwardOut<space>(grad_output, self, grad_input);
  return grad_input;
}

template <class Meta, int space>
std::tuple<Tensor&, Tensor&> AdaptiveMaxPoolOut(const Tensor& self,
                                                IntArrayRef output_size,
                                                Tensor& out, Tensor& indices) {
  constexpr const char* kName =
      space == 2 ? "adaptive_max_pool2d" : "adaptive_max_pool3d";
  DeviceCheck(kName).Add(out, "out").Add(indices, "indices").Add(self, "self");
  if (NeedsFallback(self, out) || !self.is_floating_point()) {
    Fallback(kName, "out", self, output_size, out, indices);
    return {out, indices};
  }
  OutOp<Meta, 2> op(out, indices);
  op.meta(self, output_size);
  RunMaxPool(self, Pool::Adaptive(space), op.result(0), op.result(1));
  op.Finish();
  return {out, indices};
}

template <class Meta, int space>
Tensor& AdaptiveMaxPoolBackwardOut(const Tensor& grad_output,
                                   const Tensor& self, const Tensor& indices,
                                   Tensor& grad_input) {
  if (NeedsFallback(grad_output, self, grad_input)) {
    return FallbackInto(grad_input,
                        space == 2 ? "adaptive_max_pool2d_backward"
                                   : "adaptive_max_pool3d_backward",
                        "grad_input", grad_output, self, indices, grad_input);
  }
  OutOp<Meta> op(grad_input);
  op.meta(grad_output, self, indices);
  RunMaxPoolBackward(grad_output, indices, space, op.result());
  return op.Finish();
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("max_pool2d_with_indices.out", TORCH_FN(MaxPool2dOut));
  m.impl("max_pool2d_with_indices_backward.grad_input",
         TORCH_FN(MaxPool2dBackwardOut));
  m.impl("max_pool3d_with_indices", TORCH_FN(MaxPool3d));
  m.impl("max_pool3d_with_indices.out", TORCH_FN(MaxPool3dOut));
  m.impl("max_pool3d_with_indices_backward", TORCH_FN(MaxPool3dBackward));
  m.impl("max_pool3d_with_indices_backward.grad_input",
         TORCH_FN(MaxPool3dBackwardOut));
  m.impl("avg_pool2d.out", &AvgPoolOut<meta::structured_avg_pool2d, 2>);
  m.impl("avg_pool3d.out", &AvgPoolOut<meta::structured_avg_pool3d, 3>);
  m.impl("avg_pool2d_backward.grad_input",
         &AvgPoolBackwardOut<meta::structured_avg_pool2d_backward, 2>);
  m.impl("avg_pool3d_backward.grad_input",
         &AvgPoolBackwardOut<meta::structured_avg_pool3d_backward, 3>);
  m.impl("adaptive_avg_pool2d.out", &AdaptiveAvgPoolOut<2>);
  m.impl("adaptive_avg_pool3d.out", &AdaptiveAvgPoolOut<3>);
  m.impl("_adaptive_avg_pool2d", &AdaptiveAvgPool<2>);
  m.impl("_adaptive_avg_pool3d", &AdaptiveAvgPool<3>);
  m.impl("_adaptive_avg_pool2d_backward", &AdaptiveAvgPoolBackward<2>);
  m.impl("_adaptive_avg_pool3d_backward", &AdaptiveAvgPoolBackward<3>);
  m.impl("adaptive_avg_pool3d_backward.grad_input",
         &AdaptiveAvgPoolBackwardOut<3>);
  m.impl("adaptive_max_pool2d.out",
         &AdaptiveMaxPoolOut<meta::structured_adaptive_max_pool2d, 2>);
  m.impl("adaptive_max_pool3d.out",
         &AdaptiveMaxPoolOut<meta::structured_adaptive_max_pool3d, 3>);
  m.impl(
      "adaptive_max_pool2d_backward.grad_input",
      &AdaptiveMaxPoolBackwardOut<meta::structured_adaptive_max_pool2d_backward,
                                  2>);
  m.impl(
      "adaptive_max_pool3d_backward.grad_input",
      &AdaptiveMaxPoolBackwardOut<meta::structured_adaptive_max_pool3d_backward,
                                  3>);
}

}  // namespace tvarant::torch_plugin
