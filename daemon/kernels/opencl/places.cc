#include "daemon/kernels/opencl/places.h"

#include <utility>

#include "daemon/kernels/opencl/sources.h"
#include "proto/base/status_macros.h"

namespace tvarant::opencl {
namespace {

absl::Status Resolve(KernelContext& context, const ResolvedOperand& index,
                     const PlaceRule& rule, bool first, int64_t count,
                     cl_mem keys, bool wide_keys, FaultText text) {
  return KernelCall(context, kPlacesCl, "resolve")
      .Memory(keys)
      .Int(wide_keys)
      .Int(first)
      .Long(count)
      .Operand(index)
      .Int(index.dtype == DType::kInt64)
      .Struct(rule.index_view)
      .Struct(rule.base_view)
      .Long(rule.size)
      .Long(rule.stride)
      .Int(rule.wrap)
      .Long(rule.skip)
      .Faults(std::move(text))
      .Run(count);
}

}  // namespace

absl::Status ResolvePlace(KernelContext& context, const ResolvedOperand& index,
                          const PlaceRule& rule, int64_t count, cl_mem keys,
                          bool wide_keys, FaultText text) {
  return Resolve(context, index, rule, true, count, keys, wide_keys,
                 std::move(text));
}

absl::Status ResolvePlaces(KernelContext& context, const ResolvedOperand& x,
                           int first, absl::Span<const ResolvedOperand> indices,
                           absl::Span<const int64_t> names, bool wrap,
                           cl_mem keys, bool wide_keys) {
  const int64_t count = NumElements(indices[0]);
  for (size_t k = 0; k < indices.size(); ++k) {
    const ResolvedOperand* operands[] = {&indices[k]};
    const int dim = first + static_cast<int>(k);
    PlaceRule rule;
    rule.index_view = JoinedViews(operands, ViewOrder::kRowMajor)[0];
    rule.base_view = rule.index_view;
    for (int64_t& stride : rule.base_view.strides) stride = 0;
    rule.size = x.sizes[dim];
    rule.stride = x.strides[dim];
    rule.wrap = wrap;
    RETURN_IF_ERROR(Resolve(context, indices[k], rule, k == 0, count, keys,
                            wide_keys, BadIndex(names[k], x.sizes[dim])));
  }
  return absl::OkStatus();
}

}  // namespace tvarant::opencl
