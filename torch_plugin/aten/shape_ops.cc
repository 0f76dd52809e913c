// Ops that move elements about, made of views and copies: windows, shuffles,
// spaced numbers.

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/native_channel_shuffle_native.h>
#include <ATen/ops/pixel_shuffle_native.h>
#include <ATen/ops/pixel_unshuffle_native.h>
#include <ATen/ops/pow.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>

#include "torch_plugin/aten/op_support.h"

namespace tvarant::torch_plugin {
namespace {

// --- unfold_backward ----------------------------------------------------

// Windows that don't overlap are added at once: every k-th, k times.
Tensor UnfoldBackward(const Tensor& grad, IntArrayRef input_sizes, int64_t dim,
                      int64_t size, int64_t step) {
  Tensor result = EmptyLikeOf(grad, input_sizes).zero_();
  if (grad.numel() == 0) return result;
  dim = at::maybe_wrap_dim(dim, result.dim());
  if (result.dim() == 0) return result.copy_(grad.reshape({}));
  const int64_t windows = grad.size(dim);
  const int64_t rounds =
      std::min(windows, (size + step - 1) / std::max<int64_t>(step, 1));
  for (int64_t first = 0; first < rounds; ++first) {
    const Tensor from =
        grad.slice(dim, first, std::nullopt, std::max<int64_t>(rounds, 1));
    const Tensor rest =
        result.narrow(dim, first * step, result.size(dim) - first * step);
    const Tensor to =
        rest.unfold(dim, size, rounds * step).narrow(dim, 0, from.size(dim));
    if (rounds == 1) {
      to.copy_(from);
    } else {
      const_cast<Tensor&>(to).add_(from);
    }
  }
  return result;
}

// --- Shuffles -----------------------------------------------------------

Tensor LikeFormat(const Tensor& result, const Tensor& like) {
  return result.contiguous(like.suggest_memory_format());
}
Tensor PixelShuffle(const Tensor& self, int64_t upscale_factor) {
  return LikeFormat(at::native::math_pixel_shuffle(self, upscale_factor), self);
}
Tensor PixelUnshuffle(const Tensor& self, int64_t downscale_factor) {
  return LikeFormat(at::native::math_pixel_unshuffle(self, downscale_factor),
                    self);
}
Tensor ChannelShuffle(const Tensor& self, int64_t groups) {
  return LikeFormat(at::native::math_channel_shuffle(self, groups), self);
}

Tensor NarrowCopy(const Tensor& self, int64_t dim, int64_t start,
                  int64_t length) {
  return self.narrow(dim, start, length).clone(at::MemoryFormat::Contiguous);
}

// --- logspace -----------------------------------------------------------

// base to the power of evenly spaced numbers.
Tensor& LogspaceOut(const Scalar& start, const Scalar& end, int64_t steps,
                    double base, Tensor& out) {
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  if (NeedsFallback(start, end, out) || out.scalar_type() == ScalarType::Bool) {
    return FallbackInto(out, "logspace", "out", start, end, steps, base, out);
  }
  if (out.numel() != steps) out.resize_({steps});
  if (steps == 0) return out;
  if (steps == 1) return out.fill_(std::pow(base, start.toDouble()));
  const bool is_real = out.is_floating_point();
  const ScalarType type = !is_real                 ? at::kDouble
                          : out.element_size() < 4 ? at::kFloat
                                                   : out.scalar_type();
  // For integers the ends are integers, and the powers are cut.
  const Tensor exponents = at::linspace(
      is_real ? start : Scalar(start.toLong()),
      is_real ? end : Scalar(end.toLong()), steps, out.options().dtype(type));
  out.copy_(at::pow(Scalar(base), exponents).view(out.sizes()));
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("unfold_backward", &UnfoldBackward);
  m.impl("pixel_shuffle", &PixelShuffle);
  m.impl("pixel_unshuffle", &PixelUnshuffle);
  m.impl("channel_shuffle", &ChannelShuffle);
  m.impl("narrow_copy", &NarrowCopy);
  m.impl("logspace.out", &LogspaceOut);
}

}  // namespace tvarant::torch_plugin
