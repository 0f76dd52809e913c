// embedding_renorm: rows of weight that an index names and whose p-norm is
// above a limit are scaled to it.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "daemon/kernels/host/element_type.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/index/bad_index.h"
#include "daemon/kernels/host/scratch.h"

namespace tvarant::host {
namespace {

constexpr int64_t kElementsPerTask = 1 << 14;

template <typename T>
double NormOf(const T* row, int64_t step, int64_t width, double p) {
  double sum = 0;
  for (int64_t d = 0; d < width; ++d) {
    const double value = std::fabs(static_cast<double>(ToValue(row[d * step])));
    if (p == 2) {
      sum += value * value;
    } else if (p == 1) {
      sum += value;
    } else if (std::isinf(p)) {
      sum = std::isnan(value) || value > sum ? value : sum;
    } else if (p == 0) {
      sum += value != 0;
    } else {
      sum += std::pow(value, p);
    }
  }
  if (p == 2) return std::sqrt(sum);
  return p == 1 || p == 0 || std::isinf(p) ? sum : std::pow(sum, 1 / p);
}

template <typename T>
void Renorm(const Tensor& weight, const char* named, double limit, double p,
            ThreadPool& pool) {
  const int64_t width = weight.sizes[1], step = weight.strides[1];
  pool.ParallelFor(
      weight.sizes[0], std::max<int64_t>(1, kElementsPerTask / width),
      [&](int64_t begin, int64_t end) {
        for (int64_t v = begin; v < end; ++v) {
          if (named[v] == 0) continue;
          T* row = reinterpret_cast<T*>(weight.data) + v * weight.strides[0];
          const double norm = NormOf(row, step, width, p);
          if (!(norm > limit)) continue;
          // As PyTorch: a little more, so that 0 divides nothing.
          const double scale = limit / (norm + 1e-7);
          for (int64_t d = 0; d < width; ++d) {
            row[d * step] = FromValue<T>(static_cast<ValueType<T>>(
                static_cast<double>(ToValue(row[d * step])) * scale));
          }
        }
      });
}

}  // namespace

absl::Status RunEmbeddingRenorm(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& weight = launch.dst[0];
  const Tensor& index = launch.src[0];
  const int64_t vocabulary = weight.sizes[0];
  // Without columns the number of rows has no memory behind it.
  if (weight.numel() == 0 && index.numel() == 0) return absl::OkStatus();
  BadIndex bad;
  char* named = nullptr;
  if (weight.numel() > 0) {
    named = Scratch(static_cast<size_t>(vocabulary));
    if (named == nullptr) {
      return absl::ResourceExhaustedError("embedding_renorm: no host memory");
    }
    std::memset(named, 0, static_cast<size_t>(vocabulary));
  }
  for (int64_t t = 0; t < index.sizes[0]; ++t) {
    const int64_t v = IndexAt(index, t * index.strides[0]);
    if (v < 0 || v >= vocabulary) {
      bad.Report(t, v);
    } else if (named != nullptr) {
      named[v] = 1;
    }
  }
  if (named != nullptr) {
    ForElementType(weight.dtype, [&](auto element) {
      using T = decltype(element);
      if constexpr (kIsFloat<T>) {
        Renorm<T>(weight, named, launch.floats[0], launch.floats[1], pool);
      }
    });
  }
  return bad.status(0, vocabulary);
}

}  // namespace tvarant::host
