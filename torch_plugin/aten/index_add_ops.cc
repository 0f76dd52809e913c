// index_add: the scatter_add kernel with an index that repeats along the other
// dimensions.

#include <ATen/ops/index_add_meta.h>
#include <torch/library.h>

#include "torch_plugin/aten/launch.h"
#include "torch_plugin/aten/op_support.h"

namespace tvarant::torch_plugin {
namespace {

Tensor& IndexAddOut(const Tensor& self, int64_t dim, const Tensor& index,
                    const Tensor& source, const Scalar& alpha, Tensor& out) {
  DeviceCheck("wrapper_PrivateUse1_index_add_out_out")
      .Add(out, "out")
      .Add(self, "self")
      .Add(index, "index")
      .Add(source, "source");
  // True and true is true, which no sum gives.
  if (NeedsFallback(self, source, out) ||
      self.scalar_type() == ScalarType::Bool) {
    return FallbackInto(out, "index_add", "out", self, dim, index, source,
                        alpha, out);
  }
  OutOp<at::meta::structured_index_add> op(out);
  op.meta(self, dim, index, source, alpha);
  const Tensor& result = op.result();
  if (!result.is_same(self)) result.copy_(self);
  if (index.numel() > 0 && source.numel() > 0) {
    const Tensor y = result.dim() == 0 ? result.view({1}) : result;
    Tensor values = source.dim() == 0 ? source.view({1}) : source;
    if (alpha.toDouble() != 1) values = values.mul(alpha);
    const int64_t along = c10::maybe_wrap_dim(dim, y.dim());
    c10::DimVector shape(static_cast<size_t>(values.dim()), 1);
    shape[static_cast<size_t>(along)] = index.numel();
    const Tensor places =
        index.to(ScalarType::Long).reshape(shape).expand(values.sizes());
    LaunchBuilder launch(Kernel::kScatterAdd, self.device());
    launch.Dst(y).Src(places).Src(values).Int(along);
    launch.Run();
  }
  return op.Finish();
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("index_add.out", &IndexAddOut);
}

}  // namespace
}  // namespace tvarant::torch_plugin
