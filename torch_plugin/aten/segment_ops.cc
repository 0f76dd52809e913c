// segment_reduce and its gradient.

#include <ATen/WrapDimUtils.h>
#include <ATen/native/ReductionType.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <array>
#include <string_view>

#include "torch_plugin/aten/launch.h"
#include "torch_plugin/aten/op_support.h"
#include "torch_plugin/aten/optional_tensor.h"

namespace tvarant::torch_plugin {
namespace {

using OptionalScalar = std::optional<Scalar>;

ReduceOp OpOf(c10::string_view reduce) {
  switch (at::native::get_reduction_enum(reduce)) {
    case at::native::ReductionType::SUM:
      return ReduceOp::kSum;
    case at::native::ReductionType::MEAN:
      return ReduceOp::kMean;
    case at::native::ReductionType::PROD:
      return ReduceOp::kProd;
    case at::native::ReductionType::MAX:
      return ReduceOp::kMax;
    default:
      return ReduceOp::kMin;
  }
}

// Where segments begin and end: [outer, segments + 1].
Tensor OffsetsOf(const Tensor& data, int64_t axis,
                 const OptionalTensor& lengths, const OptionalTensor& offsets,
                 int64_t outer) {
  const bool by_offsets = Has(offsets);
  const Tensor& given = by_offsets ? *offsets : *lengths;
  const char* name = by_offsets ? "offsets" : "lengths";
  TORCH_CHECK(given.device() == data.device(), "segment_reduce(): expected ",
              name, " on ", data.device(), " but got it on ", given.device());
  TORCH_CHECK(
      given.scalar_type() == at::kLong || given.scalar_type() == at::kInt,
      "segment_reduce(): expected ", name, " of int64 or int32");
  TORCH_CHECK(data.dim() >= given.dim(), "segment_reduce(): ", name,
              " has more dimensions than data");
  TORCH_CHECK(axis == given.dim() - 1,
              "segment_reduce(): Expected axis to be the last dimension of ",
              name, " but got ", axis, ".");
  for (int64_t i = 0; i < axis; ++i) {
    TORCH_CHECK(given.size(i) == data.size(i), "segment_reduce(): ", name,
                " has another size than data in dimension ", i);
  }
  if (by_offsets) return given.contiguous().view({outer, given.size(axis)});
  const Tensor ends = given.to(at::kLong).cumsum(axis).view({outer, -1});
  return at::cat({at::zeros({outer, 1}, ends.options()), ends}, 1);
}

// [outer, length, inner] of a contiguous tensor.
std::array<int64_t, 3> RowsOf(const Tensor& tensor, int64_t axis) {
  std::array<int64_t, 3> sizes{1, tensor.size(axis), 1};
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    if (i != axis) sizes[i < axis ? 0 : 2] *= tensor.size(i);
  }
  return sizes;
}

void AddReduction(LaunchBuilder& launch, c10::string_view reduce,
                  const OptionalScalar& initial) {
  launch.Int(static_cast<int64_t>(OpOf(reduce)));
  launch.Int(initial.has_value() ? 1 : 0);
  launch.Float(initial.has_value() ? initial->toDouble() : 0);
}

bool IsReduced(const Tensor& data) {
  return data.is_floating_point() && !LacksKernels(data) && data.dim() > 0;
}

Tensor SegmentReduce(const Tensor& data, c10::string_view reduce,
                     const OptionalTensor& lengths,
                     const OptionalTensor& indices,
                     const OptionalTensor& offsets, int64_t axis, bool unsafe,
                     const OptionalScalar& initial) {
  if (!IsReduced(data)) {
    return FallbackTensor("segment_reduce", "", data, reduce, lengths, indices,
                          offsets, axis, unsafe, initial);
  }
  axis = at::maybe_wrap_dim(axis, data.dim());
  TORCH_CHECK(!Has(indices),
              "segment_reduce(): indices based reduction is not supported "
              "yet.");
  TORCH_CHECK(Has(lengths) || Has(offsets),
              "segment_reduce(): Either lengths or offsets must be defined.");
  const std::array<int64_t, 3> rows = RowsOf(data, axis);
  const Tensor places = OffsetsOf(data, axis, lengths, offsets, rows[0]);
  if (!Has(offsets) && !unsafe && lengths->numel() > 0) {
    // One wait for both.
    const Tensor both =
        at::cat(
            {lengths->min().to(at::kLong).reshape({1}),
             places.select(1, -1).ne(rows[1]).any().to(at::kLong).reshape({1})})
            .cpu();
    const int64_t* found = both.const_data_ptr<int64_t>();
    TORCH_CHECK(found[0] >= 0, "lengths contains negative value!");
    TORCH_CHECK(found[1] == 0,
                "segment_reduce(): Expected all rows of lengths along axis to "
                "sum to data.size(lengths.dim()-1) when !unsafe.");
  }
  at::DimVector sizes(data.sizes());
  sizes[static_cast<size_t>(axis)] = places.size(1) - 1;
  Tensor result = EmptyLikeOf(data, sizes);
  if (result.numel() == 0) return result;
  const Tensor x = data.contiguous().view(rows);
  const Tensor y = result.view({rows[0], places.size(1) - 1, rows[2]});
  LaunchBuilder launch(Kernel::kSegmentReduce, data.device());
  launch.Dst(y).Src(x).Src(places);
  AddReduction(launch, reduce, initial);
  launch.Run();
  return result;
}

Tensor SegmentReduceBackward(const Tensor& grad, const Tensor& output,
                             const Tensor& data, c10::string_view reduce,
                             const OptionalTensor& lengths,
                             const OptionalTensor& offsets, int64_t axis,
                             const OptionalScalar& initial) {
  if (!IsReduced(data)) {
    return FallbackTensor("_segment_reduce_backward", "", grad, output, data,
                          reduce, lengths, offsets, axis, initial);
  }
  axis = at::maybe_wrap_dim(axis, data.dim());
  TORCH_CHECK(Has(lengths) || Has(offsets),
              "Expecting exactly one of lengths or offsets to be defined.");
  const std::array<int64_t, 3> rows = RowsOf(data, axis);
  const Tensor places = OffsetsOf(data, axis, lengths, offsets, rows[0]);
  Tensor result = EmptyLikeOf(data, data.sizes());
  if (result.numel() == 0) return result;
  const std::array<int64_t, 3> reduced{rows[0], places.size(1) - 1, rows[2]};
  LaunchBuilder launch(Kernel::kSegmentReduceBackward, data.device());
  const Tensor dx = result.view(rows), x = data.contiguous().view(rows);
  const Tensor dy = grad.contiguous().view(reduced);
  const Tensor y = output.contiguous().view(reduced);
  launch.Dst(dx).Src(dy).Src(y).Src(x).Src(places);
  AddReduction(launch, reduce, initial);
  launch.Run();
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("segment_reduce", &SegmentReduce);
  m.impl("_segment_reduce_backward", &SegmentReduceBackward);
}

}  // namespace tvarant::torch_plugin
