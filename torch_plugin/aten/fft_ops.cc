// Fourier transforms, dimension by dimension.
//
// Results have the strides that PyTorch's own transforms on the CPU give them:
// the dimensions of the batch by falling stride, then the transformed ones.

#include <ATen/WrapDimUtils.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>

#include "torch_plugin/aten/launch.h"
#include "torch_plugin/aten/op_support.h"

namespace tvarant::torch_plugin {
namespace {

// Beyond these PyTorch transforms in rounds, with strides of their own.
constexpr size_t kMaxDims = 3;

double ScaleOf(int64_t normalization, IntArrayRef sizes, IntArrayRef dims) {
  double count = 1;
  for (const int64_t dim : dims) {
    count *= static_cast<double>(sizes[static_cast<size_t>(dim)]);
  }
  switch (normalization) {
    case 0:
      return 1;
    case 1:
      return 1 / std::sqrt(count);
    default:
      return 1 / count;
  }
}

// The transformed dimensions, those of small strides last; the last one of
// real transforms stays where it is.
at::DimVector SortedDims(const Tensor& self, IntArrayRef dims,
                         bool keeps_last) {
  at::DimVector sorted;
  for (const int64_t dim : dims) {
    sorted.push_back(at::maybe_wrap_dim(dim, self.dim()));
  }
  std::stable_sort(
      sorted.begin(), sorted.end() - (keeps_last ? 1 : 0),
      [&](int64_t a, int64_t b) { return self.stride(a) > self.stride(b); });
  return sorted;
}

Tensor Result(const Tensor& like, IntArrayRef sizes, IntArrayRef dims,
              ScalarType type) {
  at::DimVector order;
  for (int64_t d = 0; d < like.dim(); ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) {
      order.push_back(d);
    }
  }
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return like.stride(a) > like.stride(b);
  });
  order.append(dims.begin(), dims.end());
  at::DimVector strides(order.size());
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    const auto d = static_cast<size_t>(order[i]);
    strides[d] = stride;
    stride *= std::max<int64_t>(sizes[d], 1);
  }
  return CreateOut(sizes, strides, like.options().dtype(type));
}

void Transform(const Tensor& to, const Tensor& from, int64_t dim, bool forward,
               double scale) {
  if (to.numel() == 0) return;
  LaunchBuilder launch(Kernel::kFft, to.device());
  launch.Dst(to).Src(from).Int(dim).Int(forward ? 1 : 0).Float(scale).Run();
}

// Complex to complex over all dims; the last launch scales.
void TransformAll(const Tensor& to, Tensor from, IntArrayRef dims, bool forward,
                  double scale) {
  for (size_t i = dims.size(); i-- > 0;) {
    Transform(to, from, dims[i], forward, i == 0 ? scale : 1);
    from = to;
  }
}

bool HasKernel(const Tensor& self, IntArrayRef dims) {
  const ScalarType type = self.scalar_type();
  return (type == at::kFloat || type == at::kDouble ||
          type == at::kComplexFloat || type == at::kComplexDouble) &&
         self.dim() <= kMaxRank && dims.size() <= kMaxDims;
}

Tensor C2c(const Tensor& self, IntArrayRef dim, int64_t normalization,
           bool forward) {
  if (!HasKernel(self, dim)) {
    return FallbackTensor("_fft_c2c", "", self, dim, normalization, forward);
  }
  TORCH_CHECK(self.is_complex(), "_fft_c2c: expected a complex tensor, got ",
              self.scalar_type());
  if (dim.empty()) return self.clone();
  const at::DimVector dims = SortedDims(self, dim, false);
  const Tensor out = Result(self, self.sizes(), dims, self.scalar_type());
  TransformAll(out, self, dims, forward,
               ScaleOf(normalization, self.sizes(), dims));
  return out;
}

Tensor R2c(const Tensor& self, IntArrayRef dim, int64_t normalization,
           bool onesided) {
  if (!HasKernel(self, dim)) {
    return FallbackTensor("_fft_r2c", "", self, dim, normalization, onesided);
  }
  TORCH_CHECK(self.is_floating_point(),
              "_fft_r2c: expected a real tensor, got ", self.scalar_type());
  const at::DimVector dims = SortedDims(self, dim, true);
  const double scale = ScaleOf(normalization, self.sizes(), dims);
  const ScalarType type = c10::toComplexType(self.scalar_type());
  if (!onesided) {
    const Tensor out = Result(self, self.sizes(), dims, type);
    out.copy_(self);
    TransformAll(out, out, dims, /*forward=*/true, scale);
    return out;
  }
  at::DimVector sizes(self.sizes());
  const int64_t last = dims.back();
  int64_t& half = sizes[static_cast<size_t>(last)];
  half = half / 2 + 1;
  const Tensor out = Result(self, sizes, dims, type);
  Transform(out, self, last, /*forward=*/true, dims.size() == 1 ? scale : 1);
  TransformAll(out, out, IntArrayRef(dims).slice(0, dims.size() - 1),
               /*forward=*/true, scale);
  return out;
}

Tensor C2r(const Tensor& self, IntArrayRef dim, int64_t normalization,
           int64_t last_dim_size) {
  if (!HasKernel(self, dim)) {
    return FallbackTensor("_fft_c2r", "", self, dim, normalization,
                          last_dim_size);
  }
  TORCH_CHECK(self.is_complex(), "_fft_c2r: expected a complex tensor, got ",
              self.scalar_type());
  Tensor from = self;
  if (dim.size() > 1) {
    from = C2c(self, dim.slice(0, dim.size() - 1), 0, /*forward=*/false);
  }
  const int64_t last = at::maybe_wrap_dim(dim.back(), self.dim());
  at::DimVector sizes(self.sizes());
  TORCH_CHECK(sizes[static_cast<size_t>(last)] == last_dim_size / 2 + 1,
              "_fft_c2r: expected size ", last_dim_size / 2 + 1,
              " in dimension ", last, ", got ",
              sizes[static_cast<size_t>(last)]);
  sizes[static_cast<size_t>(last)] = last_dim_size;
  at::DimVector dims;
  for (const int64_t d : dim) dims.push_back(at::maybe_wrap_dim(d, self.dim()));
  const Tensor out =
      Result(from, sizes, {last}, c10::toRealValueType(self.scalar_type()));
  Transform(out, from, last, /*forward=*/false,
            ScaleOf(normalization, sizes, dims));
  return out;
}

Tensor& Into(Tensor& out, const Tensor& result) {
  ResizeOut(out, result.sizes(), {}, result.options());
  out.copy_(result);
  return out;
}

Tensor& C2cOut(const Tensor& self, IntArrayRef dim, int64_t normalization,
               bool forward, Tensor& out) {
  return Into(out, C2c(self, dim, normalization, forward));
}
Tensor& R2cOut(const Tensor& self, IntArrayRef dim, int64_t normalization,
               bool onesided, Tensor& out) {
  return Into(out, R2c(self, dim, normalization, onesided));
}
Tensor& C2rOut(const Tensor& self, IntArrayRef dim, int64_t normalization,
               int64_t last_dim_size, Tensor& out) {
  return Into(out, C2r(self, dim, normalization, last_dim_size));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fft_c2c", &C2c);
  m.impl("_fft_c2c.out", &C2cOut);
  m.impl("_fft_r2c", &R2c);
  m.impl("_fft_r2c.out", &R2cOut);
  m.impl("_fft_c2r", &C2r);
  m.impl("_fft_c2r.out", &C2rOut);
}

}  // namespace tvarant::torch_plugin
