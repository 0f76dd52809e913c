// max_pool, avg_pool and its gradient; the adaptive forms too.

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/isa.h"
#include "daemon/kernels/host/scratch.h"
#include "daemon/kernels/host/volume/pool_loops.h"

namespace tvarant::host {
namespace {

constexpr int64_t kElementsPerTask = 1 << 14;

PoolVolume VolumeOf(const Tensor& t) {
  PoolVolume v;
  v.data = t.data;
  for (int i = 0; i < 5; ++i) v.strides[i] = t.strides[i];
  return v;
}

PoolPlan PlanOf(const HostLaunch& launch, const Tensor& large,
                const Tensor& small) {
  PoolPlan plan;
  plan.dtype = large.dtype;
  plan.large = VolumeOf(large);
  plan.small = VolumeOf(small);
  plan.batch = large.sizes[0];
  plan.channels = large.sizes[1];
  plan.adaptive = launch.ints[0] != 0;
  for (int i = 0; i < 3; ++i) {
    plan.large_size[i] = large.sizes[2 + i];
    plan.small_size[i] = small.sizes[2 + i];
    plan.kernel[i] = launch.ints[1 + i];
    plan.stride[i] = launch.ints[4 + i];
    plan.padding[i] = launch.ints[7 + i];
    plan.dilation[i] = 1;
  }
  return plan;
}

bool ChannelsSideBySide(const Tensor& t) {
  return t.sizes[1] > 1 && t.strides[1] == 1 && t.strides[4] != 1;
}

using Loop = void (*)(const PoolPlan&, int64_t, int64_t, char*);

// Runs the loop over items that each cost about `cost` steps.
absl::Status Run(const HostLaunch& launch, const PoolPlan& plan, Loop loop,
                 int64_t items, double cost, double scratch_bytes,
                 ThreadPool& pool) {
  std::atomic<bool> out_of_memory{scratch_bytes > 1e15};
  const int64_t grain =
      std::max<int64_t>(1, static_cast<int64_t>(kElementsPerTask / (cost + 1)));
  if (!out_of_memory) {
    pool.ParallelFor(items, grain, [&](int64_t begin, int64_t end) {
      char* scratch = Scratch(static_cast<size_t>(scratch_bytes));
      if (scratch == nullptr) {
        out_of_memory = true;
        return;
      }
      loop(plan, begin, end, scratch);
    });
  }
  if (!out_of_memory) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(NameOf(launch.kernel), ": no host memory for a plane"));
}

double VolumeOf(const int64_t* size) {
  return static_cast<double>(size[0]) * static_cast<double>(size[1]) *
         static_cast<double>(size[2]);
}

// Steps of a plane: each output looks at its window.
double CostOf(const PoolPlan& plan) {
  if (plan.adaptive) return VolumeOf(plan.large_size);
  double cost = VolumeOf(plan.small_size);
  for (int i = 0; i < 3; ++i) {
    cost *= static_cast<double>(std::min(plan.kernel[i], plan.large_size[i]));
  }
  return cost;
}

absl::Status Unimplemented(const HostLaunch& launch, DType dtype) {
  return absl::UnimplementedError(absl::StrCat(
      NameOf(launch.kernel), ": no kernel for dtype ", NameOf(dtype)));
}

// Rows of channels side by side if those lie so, else planes.
absl::Status RunForward(const HostLaunch& launch, const PoolPlan& plan,
                        Loop planes, Loop channels, ThreadPool& pool) {
  const Tensor& x = launch.src[0];
  if (launch.dst[0].numel() == 0) return absl::OkStatus();
  // A row of windows, one of results, one of places.
  const double row_bytes = 48 * static_cast<double>(plan.small_size[2]);
  if (ChannelsSideBySide(x)) {
    const int64_t rows = plan.batch * plan.small_size[0] * plan.small_size[1];
    const double cost = CostOf(plan) * static_cast<double>(plan.channels) *
                        static_cast<double>(plan.batch) /
                        static_cast<double>(rows);
    return Run(launch, plan, channels, rows, cost, 0, pool);
  }
  return Run(launch, plan, planes, plan.batch * plan.channels, CostOf(plan),
             row_bytes, pool);
}

}  // namespace

absl::Status RunMaxPool(const HostLaunch& launch, ThreadPool& pool) {
  PoolPlan plan = PlanOf(launch, launch.src[0], launch.dst[0]);
  if (plan.dtype == DType::kBool) return Unimplemented(launch, plan.dtype);
  plan.indices = VolumeOf(launch.dst[1]);
  for (int i = 0; i < 3; ++i) plan.dilation[i] = launch.ints[10 + i];
  const PoolKernels& kernels = TVARANT_FOR_ISA(kPoolKernels);
  return RunForward(launch, plan, kernels.max, kernels.max_channels, pool);
}

absl::Status RunAvgPool(const HostLaunch& launch, ThreadPool& pool) {
  PoolPlan plan = PlanOf(launch, launch.src[0], launch.dst[0]);
  if (!IsFloating(plan.dtype) && plan.dtype != DType::kInt64) {
    return Unimplemented(launch, plan.dtype);
  }
  plan.count_padding = launch.ints[10] != 0;
  plan.divisor = launch.ints[11];
  const PoolKernels& kernels = TVARANT_FOR_ISA(kPoolKernels);
  return RunForward(launch, plan, kernels.average, kernels.average_channels,
                    pool);
}

absl::Status RunAvgPoolBackward(const HostLaunch& launch, ThreadPool& pool) {
  PoolPlan plan = PlanOf(launch, launch.dst[0], launch.src[0]);
  if (!IsFloating(plan.dtype) && plan.dtype != DType::kInt64) {
    return Unimplemented(launch, plan.dtype);
  }
  if (launch.dst[0].numel() == 0) return absl::OkStatus();
  plan.count_padding = launch.ints[10] != 0;
  plan.divisor = launch.ints[11];
  const bool half = SizeOf(plan.dtype) == 2;
  return Run(launch, plan, TVARANT_FOR_ISA(kPoolKernels).average_backward,
             plan.batch * plan.channels, CostOf(plan),
             32 * static_cast<double>(plan.small_size[2]) +
                 (half ? 4 * VolumeOf(plan.large_size) : 0),
             pool);
}

}  // namespace tvarant::host
