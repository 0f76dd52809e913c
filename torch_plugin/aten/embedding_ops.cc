// Bags of embeddings, and limits to the norm of embeddings.

#include <ATen/TensorUtils.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <tuple>

#include "torch_plugin/aten/data_check.h"
#include "torch_plugin/aten/launch.h"
#include "torch_plugin/aten/op_support.h"

namespace tvarant::torch_plugin {
namespace {

using OptionalTensor = std::optional<Tensor>;
using Bags = std::tuple<Tensor, Tensor, Tensor, Tensor>;

enum BagMode : int64_t { kSum = 0, kMean = 1, kMax = 2 };

void CheckIndexType(const char* op, const char* name, const Tensor& tensor) {
  at::checkScalarTypes(op, at::TensorArg(tensor, name, 1),
                       {ScalarType::Long, ScalarType::Int});
}

// (result, the bag of each index, sizes of the bags, rows of the maxima)
Bags EmbeddingBag(const Tensor& weight, const Tensor& indices,
                  const Tensor& offsets, bool scale_grad_by_freq, int64_t mode,
                  bool sparse, const OptionalTensor& given_scales,
                  bool include_last_offset, int64_t padding_idx) {
  const Tensor scales = given_scales.value_or(Tensor());
  if (!weight.is_floating_point() || NeedsFallback(weight, scales)) {
    const auto r = Fallback("_embedding_bag", "", weight, indices, offsets,
                            scale_grad_by_freq, mode, sparse, given_scales,
                            include_last_offset, padding_idx);
    return {r[0].toTensor(), r[1].toTensor(), r[2].toTensor(), r[3].toTensor()};
  }
  DeviceCheck("wrapper_PrivateUse1___embedding_bag")
      .Add(weight, "weight")
      .Add(indices, "indices")
      .Add(offsets, "offsets")
      .Add(scales, "per_sample_weights");
  TORCH_CHECK(indices.dim() == 1 || indices.dim() == 2,
              "input has to be a 1D or 2D Tensor, but got Tensor of dimension ",
              indices.dim());
  TORCH_CHECK(offsets.dim() == 1,
              "offsets has to be a 1D Tensor, but got Tensor of dimension ",
              offsets.dim());
  TORCH_CHECK(weight.dim() == 2,
              "weight has to be a 2D Tensor, but got Tensor of dimension ",
              weight.dim());
  CheckIndexType("embedding_bag", "indices", indices);
  CheckIndexType("embedding_bag", "offsets", offsets);
  if (scales.defined()) {
    TORCH_CHECK(mode == kSum,
                "embedding_bag: per_sample_weights was not None. "
                "per_sample_weights is only supported for mode='sum' (got "
                "mode='",
                mode == kMean ? "mean" : "max",
                "'). Please open a feature request on GitHub.");
    TORCH_CHECK(weight.scalar_type() == scales.scalar_type(),
                "expected scalar type ", weight.scalar_type(), " but found ",
                scales.scalar_type());
    TORCH_CHECK(scales.dim() == 1 && scales.numel() == indices.numel(),
                "embedding_bag: If per_sample_weights is given, it must be 1-D "
                "and as long as the indices");
  }
  if (include_last_offset) {
    TORCH_CHECK(offsets.size(0) >= 1,
                "include_last_offset: number of offset should be at least 1");
  }
  const int64_t vocabulary = weight.size(0), width = weight.size(1);
  const int64_t total = indices.numel();
  TORCH_CHECK(padding_idx >= -vocabulary && padding_idx < vocabulary,
              "padding_idx must be within the number of embeddings, -",
              vocabulary, " through ", vocabulary - 1, ", but got ",
              padding_idx);
  const int64_t bags = offsets.size(0) - (include_last_offset ? 1 : 0);
  Tensor result = EmptyLikeOf(weight, {bags, width});
  Tensor sizes = EmptyLikeOf(indices, {bags}, ScalarType::Long);
  Tensor rows =
      EmptyLikeOf(indices, {mode == kMax ? bags : 0, width}, ScalarType::Long);
  Tensor bag_of = EmptyLikeOf(indices, {total}, ScalarType::Long);
  const Tensor flat = indices.reshape({-1});
  if (offsets.size(0) > 0) {
    CheckData(DataCheck::kFirstOffset, offsets.narrow(0, 0, 1), 0, 0);
  }
  if (bags > 0) {
    LaunchBuilder launch(Kernel::kEmbeddingBag, weight.device());
    launch.Dst(result).Dst(sizes);
    launch.DstOrAbsent(mode == kMax ? rows : Tensor());
    launch.Src(weight).Src(flat).Src(offsets).SrcOrAbsent(scales);
    launch.Int(mode).Int(padding_idx < 0 ? -1 : padding_idx).Run();
  }
  if (total > 0 && bags > 0) {
    // The last bag that begins at or before the index.
    const Tensor begins = offsets.narrow(0, 0, bags).to(ScalarType::Long);
    const Tensor places =
        at::arange(total, offsets.options().dtype(ScalarType::Long));
    LaunchBuilder launch(Kernel::kSearchSorted, weight.device());
    launch.Dst(bag_of).Src(begins).Src(places).SrcOrAbsent(Tensor());
    launch.Int(/*right=*/1).Run();
    bag_of.sub_(1);
  }
  return {result, bag_of, sizes, rows};
}

// --- Gradients
// -----------------------------------------------------------------

Tensor DenseBackward(const Tensor& grad, const Tensor& indices,
                     const Tensor& bag_of, const Tensor& sizes,
                     const Tensor& rows, int64_t num_weights,
                     bool scale_grad_by_freq, int64_t mode,
                     const OptionalTensor& given_scales, int64_t padding_idx) {
  if (LacksKernels(grad)) {
    return FallbackTensor("_embedding_bag_dense_backward", "", grad, indices,
                          bag_of, sizes, rows, num_weights, scale_grad_by_freq,
                          mode, given_scales, padding_idx);
  }
  const Tensor scales = given_scales.value_or(Tensor());
  const int64_t width = grad.size(1);
  Tensor result = EmptyLikeOf(grad, {num_weights, width});
  if (mode == kMax) {
    result.zero_();
    if (grad.numel() == 0) return result;
    const Tensor none = rows.lt(0);
    return result.scatter_add_(0, rows.clamp_min(0), grad.masked_fill(none, 0));
  }
  const Tensor flat = indices.reshape({-1});
  if (flat.numel() == 0) return result.zero_();
  // Each bag's gradient for each of its members.
  Tensor shares = grad;
  if (mode == kMean) {
    const Tensor divisor = sizes.clamp_min(1).to(grad.scalar_type());
    shares = grad.div(divisor.unsqueeze(1));
  }
  shares = shares.index_select(0, bag_of);
  if (scales.defined()) shares.mul_(scales.unsqueeze(1));
  LaunchBuilder launch(Kernel::kEmbeddingBackward, grad.device());
  launch.Dst(result).Src(shares).Src(flat);
  launch.Int(padding_idx < 0 ? -1 : padding_idx).Int(scale_grad_by_freq).Run();
  return result;
}

Tensor Backward(const Tensor& grad, const Tensor& indices,
                const Tensor& /*offsets*/, const Tensor& bag_of,
                const Tensor& sizes, const Tensor& rows, int64_t num_weights,
                bool scale_grad_by_freq, int64_t mode, bool sparse,
                const OptionalTensor& scales, int64_t padding_idx) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !sparse,
      "embedding_bag: tvarant has dense gradients only, but sparse is "
      "set");
  return DenseBackward(grad, indices, bag_of, sizes, rows, num_weights,
                       scale_grad_by_freq, mode, scales, padding_idx);
}

Tensor ScalesBackward(const Tensor& grad, const Tensor& weight,
                      const Tensor& indices, const Tensor& offsets,
                      const Tensor& bag_of, int64_t mode, int64_t padding_idx) {
  TORCH_CHECK(mode == kSum,
              "embedding_bag_backward: per_sample_weights only supported for "
              "mode='sum'");
  if (NeedsFallback(grad, weight)) {
    return FallbackTensor("_embedding_bag_per_sample_weights_backward", "",
                          grad, weight, indices, offsets, bag_of, mode,
                          padding_idx);
  }
  const Tensor flat = indices.reshape({-1});
  if (flat.numel() == 0) return EmptyLikeOf(grad, {0});
  Tensor result =
      grad.index_select(0, bag_of).mul_(weight.index_select(0, flat)).sum(1);
  if (padding_idx >= 0) result.masked_fill_(flat.eq(padding_idx), 0);
  return result;
}

// --- embedding_renorm_
// ---------------------------------------------------------

Tensor& EmbeddingRenorm(Tensor& self, const Tensor& indices, double max_norm,
                        double norm_type) {
  if (!self.is_floating_point() || LacksKernels(self)) {
    return FallbackInto(self, "embedding_renorm_", "", self, indices, max_norm,
                        norm_type);
  }
  DeviceCheck("wrapper_PrivateUse1__embedding_renorm_")
      .Add(self, "self")
      .Add(indices, "indices");
  TORCH_CHECK(self.dim() == 2, "Expected 2-dimensional tensor, but got ",
              self.dim(), "-dimensional tensor for argument #1 'self'");
  CheckIndexType("embedding_renorm_", "indices", indices);
  if (indices.numel() == 0) return self;
  const Tensor flat = indices.reshape({-1});
  LaunchBuilder launch(Kernel::kEmbeddingRenorm, self.device());
  launch.Dst(self).Src(flat).Float(max_norm).Float(norm_type).Run();
  return self;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_embedding_bag", &EmbeddingBag);
  m.impl("_embedding_bag_forward_only", &EmbeddingBag);
  m.impl("_embedding_bag_backward", &Backward);
  m.impl("_embedding_bag_dense_backward", &DenseBackward);
  m.impl("_embedding_bag_per_sample_weights_backward", &ScalesBackward);
  m.impl("embedding_renorm_", &EmbeddingRenorm);
}

}  // namespace
}  // namespace tvarant::torch_plugin
