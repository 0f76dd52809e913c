#include "daemon/kernels/host/conv/depthwise.h"

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "daemon/kernels/host/half.h"
#include "daemon/kernels/host/scratch.h"

namespace tvarant::host {
namespace {

// Planes beyond this go through tiles.
constexpr double kMaxPaddedElements = 1 << 24;

bool PlanPadded(const ConvProblem& p, int64_t element_bytes, int64_t lanes,
                ConvPadded* padded) {
  if (!IsDepthwise(p)) return false;
  int64_t size[3];
  double elements = 1;
  for (int i = 0; i < 3; ++i) {
    int64_t low = p.taps[0].start[i], high = low;
    for (int64_t t = 1; t < p.num_taps; ++t) {
      low = std::min(low, p.taps[t].start[i]);
      high = std::max(high, p.taps[t].start[i]);
    }
    padded->low[i] = low;
    size[i] = high - low + (p.grid[i] - 1) * p.step[i] + 1;
    elements *= static_cast<double>(size[i]);
  }
  if (elements > kMaxPaddedElements ||
      static_cast<double>(p.step[2]) * static_cast<double>(lanes) >
          kMaxPaddedElements / 4) {
    return false;
  }
  padded->size[0] = size[0];
  padded->size[1] = size[1];
  padded->phase_size =
      ((size[2] + p.step[2] - 1) / p.step[2] + lanes - 1) / lanes * lanes;
  const double row = static_cast<double>(p.step[2] * padded->phase_size);
  if (row * static_cast<double>(size[0] * size[1]) > 2 * kMaxPaddedElements) {
    return false;
  }
  const int64_t all = size[0] * size[1] * p.step[2] * padded->phase_size;
  // The plane, what is read beyond it, a line of y, the weights; offsets and
  // sums of the taps.
  padded->bytes = static_cast<size_t>(
      element_bytes * (all + p.grid[2] + p.num_taps + 10 * lanes) +
      (8 + element_bytes * lanes) * p.num_taps + 128);
  return true;
}

absl::Status RunPlanes(const HostLaunch& launch, const GroupedProblem& all,
                       const ConvKernel& kernel, const ConvPadded& padded,
                       ThreadPool& pool) {
  const ConvProblem& p = all.first;
  const int64_t work = p.columns() / p.batch * p.num_taps + 1;
  std::atomic<bool> out_of_memory{false};
  pool.ParallelFor(all.groups * p.batch,
                   std::max<int64_t>(1, kProductsPerTask / 8 / work),
                   [&](int64_t begin, int64_t end) {
                     char* scratch = Scratch(padded.bytes);
                     if (scratch == nullptr) {
                       out_of_memory = true;
                       return;
                     }
                     for (int64_t task = begin; task < end; ++task) {
                       kernel.depthwise(all.Group(task % all.groups), padded,
                                        task / all.groups, scratch);
                     }
                   });
  return out_of_memory ? NoMemory(launch) : absl::OkStatus();
}

// Copies numbers into the computing type.
void Pack(const char* src, DType dtype, int64_t count, int64_t stride,
          bool wide, char* dst) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = i * stride;
    double value = 0;
    switch (dtype) {
      case DType::kFloat16:
        value = ToFloat(reinterpret_cast<const Half*>(src)[at]);
        break;
      case DType::kBFloat16:
        value = ToFloat(reinterpret_cast<const BFloat16*>(src)[at]);
        break;
      case DType::kFloat32:
        value = reinterpret_cast<const float*>(src)[at];
        break;
      case DType::kFloat64:
        value = reinterpret_cast<const double*>(src)[at];
        break;
      default:
        break;
    }
    if (wide) {
      reinterpret_cast<double*>(dst)[i] = value;
    } else {
      reinterpret_cast<float*>(dst)[i] = static_cast<float>(value);
    }
  }
}

// Channels last: vectors of groups.
absl::Status RunChannels(const HostLaunch& launch, const GroupedProblem& all,
                         const ConvKernel& kernel, ThreadPool& pool) {
  const ConvProblem& p = all.first;
  const bool wide = p.dtype == DType::kFloat64;
  const int64_t bytes = wide ? 8 : 4, groups = all.groups;
  char* weights =
      LaunchScratch(static_cast<size_t>((p.num_taps + 1) * groups * bytes));
  if (weights == nullptr) return NoMemory(launch);
  const int64_t element = BytesOf(p.dtype);
  for (int64_t t = 0; t < p.num_taps; ++t) {
    Pack(p.weight + p.taps[t].weight * element, p.dtype, groups,
         all.weight_step / element, wide, weights + t * groups * bytes);
  }
  char* bias = weights + p.num_taps * groups * bytes;
  std::fill_n(bias, groups * bytes, 0);
  if (p.bias != nullptr) {
    Pack(p.bias, p.bias_dtype, groups, p.bias_stride, wide, bias);
  }
  const double work = static_cast<double>(p.grid[2]) *
                      static_cast<double>(groups * (p.num_taps + 1));
  std::atomic<bool> out_of_memory{false};
  pool.ParallelFor(
      p.batch * p.grid[0] * p.grid[1],
      std::max<int64_t>(1, static_cast<int64_t>(kProductsPerTask / 8 / work)),
      [&](int64_t begin, int64_t end) {
        char* scratch = Scratch(static_cast<size_t>(16 * p.num_taps));
        if (scratch == nullptr) {
          out_of_memory = true;
          return;
        }
        kernel.depthwise_channels(p, groups, weights, begin, end, scratch);
      });
  return out_of_memory ? NoMemory(launch) : absl::OkStatus();
}

}  // namespace

absl::Status RunDepthwise(const HostLaunch& launch, const GroupedProblem& all,
                          const ConvKernel& kernel, ThreadPool& pool,
                          bool* done) {
  const ConvProblem& p = all.first;
  const int64_t element = BytesOf(p.dtype);
  *done = true;
  if (all.groups > 1 && all.x_step == element && all.y_step == element &&
      p.y.strides[2] != 1) {
    return RunChannels(launch, all, kernel, pool);
  }
  ConvPadded padded;
  if (PlanPadded(p, p.dtype == DType::kFloat64 ? 8 : 4, kernel.lanes,
                 &padded)) {
    return RunPlanes(launch, all, kernel, padded, pool);
  }
  *done = false;
  return absl::OkStatus();
}

absl::Status RunDepthwiseWeight(const HostLaunch& launch,
                                const GroupedProblem& all,
                                const ConvKernel& kernel, ThreadPool& pool,
                                bool* done) {
  const ConvProblem& p = all.first;
  ConvPadded padded;
  *done =
      PlanPadded(p, p.dtype == DType::kFloat64 ? 8 : 4, kernel.lanes, &padded);
  if (!*done) return absl::OkStatus();
  const double work =
      static_cast<double>(p.columns()) * static_cast<double>(p.num_taps);
  std::atomic<bool> out_of_memory{false};
  pool.ParallelFor(
      all.groups,
      std::max<int64_t>(1, static_cast<int64_t>(kProductsPerTask / 8 / work)),
      [&](int64_t begin, int64_t end) {
        char* scratch = Scratch(padded.bytes);
        if (scratch == nullptr) {
          out_of_memory = true;
          return;
        }
        for (int64_t group = begin; group < end; ++group) {
          kernel.depthwise_weight(all.Group(group), padded, scratch);
        }
      });
  return out_of_memory ? NoMemory(launch) : absl::OkStatus();
}

}  // namespace tvarant::host
