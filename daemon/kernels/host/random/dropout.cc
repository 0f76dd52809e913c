// dropout: mask = 1 with probability 1 - p, y = x * mask / (1 - p).

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/kernels/host/half.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/isa.h"
#include "daemon/kernels/host/random/random_words.h"
#include "proto/base/strided.h"

namespace tvarant::host {
namespace {

constexpr int64_t kBlocksPerTask = 8;

template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <typename T>
void Run(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& x = launch.src[0];
  const Tensor& y = launch.dst[0];
  const Tensor& mask = launch.dst[1];
  const int64_t count = x.numel();
  const double p = launch.floats[0];
  // p = 1 drops all; without the test 1 / 0 would make every y NaN.
  const Wide<T> scale = static_cast<Wide<T>>(p < 1 ? 1 / (1 - p) : 0);
  const RandomStream stream{static_cast<uint64_t>(launch.ints[0]),
                            static_cast<uint64_t>(launch.ints[1])};
  base::StridedLoop<3> loop(x.sizes, x.rank,
                            {y.strides, mask.strides, x.strides});
  loop.Coalesce();
  const auto bernoulli = TVARANT_FOR_ISA(BernoulliBytes);
  const int64_t blocks = (count + kRandomBlock - 1) / kRandomBlock;
  pool.ParallelFor(blocks, kBlocksPerTask, [&](int64_t begin, int64_t end) {
    uint8_t keep[kRandomBlock];
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kRandomBlock;
      const int64_t n = std::min(kRandomBlock, count - first);
      bernoulli(stream, first, n, 1 - p, sizeof(T) == 8, keep);
      for (int64_t i = 0; i < n;) {
        const int64_t inner = loop.inner_size();
        const int64_t run = std::min(n - i, inner - (first + i) % inner);
        T* dst = reinterpret_cast<T*>(y.data) + loop.OffsetOf(0, first + i);
        uint8_t* flag =
            reinterpret_cast<uint8_t*>(mask.data) + loop.OffsetOf(1, first + i);
        const T* src =
            reinterpret_cast<const T*>(x.data) + loop.OffsetOf(2, first + i);
        const int64_t dst_step = loop.inner_stride(0);
        const int64_t flag_step = loop.inner_stride(1);
        const int64_t src_step = loop.inner_stride(2);
        for (int64_t j = 0; j < run; ++j) {
          const Wide<T> factor = keep[i + j] ? scale : Wide<T>(0);
          dst[j * dst_step] = FromFloat<T>(ToFloat(src[j * src_step]) * factor);
          flag[j * flag_step] = keep[i + j];
        }
        i += run;
      }
    }
  });
}

}  // namespace

absl::Status RunDropout(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& x = launch.src[0];
  const Tensor& y = launch.dst[0];
  if (x.dtype != y.dtype || launch.dst[1].dtype != DType::kBool ||
      !IsFloating(x.dtype)) {
    return absl::UnimplementedError(absl::StrCat(
        "dropout: no kernel for ", NameOf(x.dtype), " to ", NameOf(y.dtype)));
  }
  if (x.numel() == 0) return absl::OkStatus();
  switch (x.dtype) {
    case DType::kFloat16:
      Run<Half>(launch, pool);
      break;
    case DType::kBFloat16:
      Run<BFloat16>(launch, pool);
      break;
    case DType::kFloat32:
      Run<float>(launch, pool);
      break;
    default:
      Run<double>(launch, pool);
  }
  return absl::OkStatus();
}

}  // namespace tvarant::host
