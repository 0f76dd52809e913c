// grid_sampler in two and three dimensions, with gradients.

#include <ATen/native/GridSamplerUtils.h>
#include <torch/library.h>

#include <array>
#include <tuple>

#include "torch_plugin/aten/launch.h"
#include "torch_plugin/aten/op_support.h"
#include "torch_plugin/aten/volume.h"

namespace tvarant::torch_plugin {
namespace {

struct Sampling {
  int64_t interpolation, padding;
  bool align_corners;
};

template <int64_t space>
void Check(const Tensor& input, const Tensor& grid, const Sampling& sampling) {
  at::native::check_grid_sampler_common(input, grid);
  if constexpr (space == 2) {
    at::native::check_grid_sampler_2d(input, grid);
  } else {
    at::native::check_grid_sampler_3d(input, grid, sampling.interpolation);
  }
  TORCH_CHECK(grid.scalar_type() == input.scalar_type(),
              "expected scalar type ", input.scalar_type(), " but found ",
              grid.scalar_type());
}

// Of half types the CPU rounds the places too, by up to an element: its own
// numbers come from itself.
bool IsSampled(const Tensor& input, const Tensor& grid) {
  return !NeedsFallback(input, grid) && input.is_floating_point() &&
         input.scalar_type() != ScalarType::Half &&
         input.scalar_type() != ScalarType::BFloat16;
}

// Images have a depth of 1.
template <int64_t space>
void AddGrid(LaunchBuilder& launch, const Tensor& grid, bool is_dst) {
  std::array<int64_t, 5> sizes, strides;
  for (size_t i = 0; i < 5; ++i) {
    const bool missing = space == 2 && i == 1;
    const int64_t at = static_cast<int64_t>(space == 2 && i > 1 ? i - 1 : i);
    sizes[i] = missing ? 1 : grid.size(at);
    strides[i] = missing ? 0 : grid.stride(at);
  }
  is_dst ? launch.DstAs(grid, sizes, strides)
         : launch.SrcAs(grid, sizes, strides);
}

void AddSampling(LaunchBuilder& launch, const Sampling& sampling) {
  launch.Int(sampling.interpolation).Int(sampling.padding);
  launch.Int(sampling.align_corners ? 1 : 0);
}

template <int64_t space>
Tensor GridSampler(const Tensor& input, const Tensor& grid,
                   int64_t interpolation, int64_t padding, bool align_corners) {
  if (!IsSampled(input, grid)) {
    return FallbackTensor(space == 2 ? "grid_sampler_2d" : "grid_sampler_3d",
                          "", input, grid, interpolation, padding,
                          align_corners);
  }
  const Sampling sampling{interpolation, padding, align_corners};
  Check<space>(input, grid, sampling);
  at::DimVector sizes(input.sizes());
  for (size_t i = 0; i < space; ++i) {
    sizes[2 + i] = grid.size(static_cast<int64_t>(1 + i));
  }
  Tensor result = EmptyLikeOf(input, sizes);
  if (result.numel() == 0) return result;
  LaunchBuilder launch(Kernel::kGridSample, input.device());
  AddDst(launch, Volume(result, space));
  AddSrc(launch, Volume(input, space));
  AddGrid<space>(launch, grid, /*is_dst=*/false);
  AddSampling(launch, sampling);
  launch.Run();
  return result;
}

template <int64_t space>
std::tuple<Tensor, Tensor> GridSamplerBackward(
    const Tensor& grad_output, const Tensor& input, const Tensor& grid,
    int64_t interpolation, int64_t padding, bool align_corners,
    std::array<bool, 2> output_mask) {
  if (!IsSampled(input, grid)) {
    const auto results = Fallback(
        space == 2 ? "grid_sampler_2d_backward" : "grid_sampler_3d_backward",
        "", grad_output, input, grid, interpolation, padding, align_corners,
        output_mask);
    return {results[0].toTensor(), results[1].toTensor()};
  }
  const Sampling sampling{interpolation, padding, align_corners};
  Check<space>(input, grid, sampling);
  Tensor grad_input, grad_grid;
  if (output_mask[0]) grad_input = EmptyLikeOf(input, input.sizes());
  // PyTorch gives the grid's gradient in any case.
  grad_grid = EmptyLikeOf(grid, grid.sizes());
  if (grad_output.numel() == 0) {
    if (output_mask[0]) grad_input.zero_();
    grad_grid.zero_();
    return {grad_input, grad_grid};
  }
  LaunchBuilder launch(Kernel::kGridSampleBackward, input.device());
  if (output_mask[0]) {
    AddDst(launch, Volume(grad_input, space));
  } else {
    launch.DstOrAbsent(Tensor());
  }
  AddGrid<space>(launch, grad_grid, /*is_dst=*/true);
  AddSrc(launch, Volume(grad_output, space));
  AddSrc(launch, Volume(input, space));
  AddGrid<space>(launch, grid, /*is_dst=*/false);
  AddSampling(launch, sampling);
  launch.Run();
  return {grad_input, grad_grid};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("grid_sampler_2d", &GridSampler<2>);
  m.impl("grid_sampler_3d", &GridSampler<3>);
  m.impl("grid_sampler_2d_backward", &GridSamplerBackward<2>);
  m.impl("grid_sampler_3d_backward", &GridSamplerBackward<3>);
}

}  // namespace tvarant::torch_plugin
