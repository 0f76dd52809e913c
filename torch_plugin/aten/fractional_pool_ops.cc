// Fractional max pooling in two and three dimensions.

#include <ATen/native/FractionalMaxPooling.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/fractional_max_pool2d_backward_meta.h>
#include <ATen/ops/fractional_max_pool2d_meta.h>
#include <ATen/ops/fractional_max_pool3d_meta.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <tuple>

#include "torch_plugin/aten/launch.h"
#include "torch_plugin/aten/op_support.h"
#include "torch_plugin/aten/volume.h"

namespace tvarant::torch_plugin {
namespace {

namespace meta = at::meta;

bool IsPooled(const Tensor& self) {
  return !LacksKernels(self) && self.is_floating_point();
}

// [N, C, 3], in the order of d, h and w; of images PyTorch has w first.
Tensor SamplesOf(const Tensor& samples, int64_t space) {
  if (space == 3) return samples;
  const Tensor none =
      at::zeros({samples.size(0), samples.size(1), 1}, samples.options());
  return at::cat({none, samples.flip({2})}, 2);
}

void RunPool(const Tensor& self, int64_t space, IntArrayRef kernel_size,
             const Tensor& random_samples, const Tensor& output,
             const Tensor& indices) {
  if (output.numel() == 0) return;
  const Tensor samples = SamplesOf(random_samples, space);
  LaunchBuilder launch(Kernel::kFractionalMaxPool, self.device());
  AddDst(launch, Volume(output, space));
  AddDst(launch, Volume(indices, space));
  AddSrc(launch, Volume(self, space));
  launch.Src(samples);
  AddInts(launch, SpaceOf(kernel_size, space, 1));
  launch.Run();
}

// Each gradient goes where the maximum was.
void RunBackward(const Tensor& grad_output, const Tensor& indices,
                 int64_t space, const Tensor& grad_input) {
  if (grad_input.numel() == 0) return;
  ThroughContiguous(grad_input, [&](const Tensor& dx) {
    dx.zero_();
    if (grad_output.numel() == 0) return;
    int64_t plane = 1;
    for (int64_t i = 1; i <= space; ++i) plane *= dx.size(-i);
    const int64_t planes = dx.numel() / plane;
    dx.view({planes, plane})
        .scatter_add_(1, indices.reshape({planes, -1}),
                      grad_output.reshape({planes, -1}));
  });
}

std::tuple<Tensor&, Tensor&> Pool2dOut(const Tensor& self,
                                       IntArrayRef kernel_size,
                                       IntArrayRef output_size,
                                       const Tensor& random_samples,
                                       Tensor& output, Tensor& indices) {
  if (!IsPooled(self)) {
    Fallback("fractional_max_pool2d", "output", self, kernel_size, output_size,
             random_samples, output, indices);
    return {output, indices};
  }
  OutOp<meta::structured_fractional_max_pool2d, 2> op(output, indices);
  op.meta(self, kernel_size, output_size, random_samples);
  at::native::fractional_max_pool_check_shape<2>(self, random_samples);
  RunPool(self, 2, kernel_size, random_samples, op.result(0), op.result(1));
  op.Finish();
  return {output, indices};
}

std::tuple<Tensor&, Tensor&> Pool3dOut(const Tensor& self,
                                       IntArrayRef kernel_size,
                                       IntArrayRef output_size,
                                       const Tensor& random_samples,
                                       Tensor& output, Tensor& indices) {
  if (!IsPooled(self)) {
    Fallback("fractional_max_pool3d", "output", self, kernel_size, output_size,
             random_samples, output, indices);
    return {output, indices};
  }
  OutOp<meta::structured_fractional_max_pool3d, 2> op(output, indices);
  op.meta(self, kernel_size, output_size, random_samples);
  at::native::fractional_max_pool_check_shape<3>(self, random_samples);
  RunPool(self, 3, kernel_size, random_samples, op.result(0), op.result(1));
  op.Finish();
  return {output, indices};
}

Tensor& Pool2dBackwardOut(const Tensor& grad_output, const Tensor& self,
                          IntArrayRef kernel_size, IntArrayRef output_size,
                          const Tensor& indices, Tensor& grad_input) {
  if (!IsPooled(self)) {
    return FallbackInto(grad_input, "fractional_max_pool2d_backward",
                        "grad_input", grad_output, self, kernel_size,
                        output_size, indices, grad_input);
  }
  OutOp<meta::structured_fractional_max_pool2d_backward> op(grad_input);
  op.meta(grad_output, self, kernel_size, output_size, indices);
  RunBackward(grad_output, indices, 2, op.result());
  return op.Finish();
}

Tensor& Pool3dBackwardOut(const Tensor& grad_output, const Tensor& self,
                          IntArrayRef kernel_size, IntArrayRef output_size,
                          const Tensor& indices, Tensor& grad_input) {
  if (!IsPooled(self)) {
    return FallbackInto(grad_input, "fractional_max_pool3d_backward",
                        "grad_input", grad_output, self, kernel_size,
                        output_size, indices, grad_input);
  }
  TORCH_CHECK(output_size.size() == 3,
              "fractional_max_pool3d_backward(): output_size must have 3 "
              "numbers");
  for (int64_t i = 1; i <= 3; ++i) {
    TORCH_CHECK(grad_output.size(-i) == output_size[static_cast<size_t>(3 - i)],
                "fractional_max_pool3d_backward_out(): gradOutput has an "
                "unexpected size: ",
                grad_output.sizes());
  }
  ResizeOut(grad_input, self.sizes(), {}, self.options());
  RunBackward(grad_output, indices, 3, grad_input);
  return grad_input;
}

Tensor Pool3dBackward(const Tensor& grad_output, const Tensor& self,
                      IntArrayRef kernel_size, IntArrayRef output_size,
                      const Tensor& indices) {
  Tensor grad_input = EmptyLikeOf(self, {0});
  return Pool3dBackwardOut(grad_output, self, kernel_size, output_size, indices,
                           grad_input);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("fractional_max_pool2d.output", &Pool2dOut);
  m.impl("fractional_max_pool2d_backward.grad_input", &Pool2dBackwardOut);
  m.impl("fractional_max_pool3d.output", &Pool3dOut);
  m.impl("fractional_max_pool3d_backward", &Pool3dBackward);
  m.impl("fractional_max_pool3d_backward.grad_input", &Pool3dBackwardOut);
}

}  // namespace tvarant::torch_plugin
