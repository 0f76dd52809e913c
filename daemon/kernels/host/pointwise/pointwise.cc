// Launches of pointwise programs: one tensor set, or a list of them.

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/pointwise/layout.h"
#include "daemon/kernels/host/pointwise/plan.h"

namespace tvarant::host {
namespace {

// A thread's own: large, and reused from launch to launch.
struct Workspace {
  Layout layout;
  Plan plan;
  std::vector<int64_t> group_ends;
};

Workspace& ThreadWorkspace() {
  thread_local std::unique_ptr<Workspace> workspace =
      std::make_unique<Workspace>();
  return *workspace;
}

absl::Status NoMemory() {
  return absl::ResourceExhaustedError("pointwise: no memory for registers");
}

// PyTorch's message.
absl::Status ZeroDivision() {
  return absl::InvalidArgumentError("ZeroDivisionError");
}

struct Group {
  absl::Span<const Tensor> dst;
  absl::Span<const Tensor> src;
  Scalars scalars;
};

absl::Status Prepare(const Program& program, const Group& group,
                     Workspace* workspace) {
  BuildLayout(group.dst, group.src, &workspace->layout);
  return BuildPlan(program, group.scalars, group.dst, group.src,
                   workspace->layout, &workspace->plan);
}

absl::Status CheckLaunch(const HostLaunch& launch, size_t num_dst,
                         size_t num_src) {
  if (launch.program == nullptr) {
    return absl::InvalidArgumentError("pointwise: no program");
  }
  if (num_dst == 0 || num_dst > kMaxProgramOutputs ||
      num_src > kMaxProgramInputs ||
      launch.program->nodes.size() > kMaxProgramNodes) {
    return absl::InvalidArgumentError("pointwise: too many or no operands");
  }
  return absl::OkStatus();
}

// Group g of a foreach launch.
Group GroupOf(const HostLaunch& launch, int64_t g) {
  const size_t batch = static_cast<size_t>(launch.batch);
  const size_t num_dst = launch.dst.size() / batch;
  const size_t num_src = launch.src.size() / batch;
  Group group;
  group.dst = launch.dst.subspan(g * num_dst, num_dst);
  group.src = launch.src.subspan(g * num_src, num_src);
  group.scalars = {launch.floats, launch.ints};
  if (launch.flags & kPerGroupScalars) {
    const size_t num_floats = launch.floats.size() / batch;
    const size_t num_ints = launch.ints.size() / batch;
    group.scalars.floats = launch.floats.subspan(g * num_floats, num_floats);
    group.scalars.ints = launch.ints.subspan(g * num_ints, num_ints);
  }
  return group;
}

// The first failure of several threads.
class FirstError {
 public:
  void Set(absl::Status status) {
    if (!taken_.exchange(true)) status_ = std::move(status);
  }
  // After all threads are done.
  const absl::Status& status() const { return status_; }

 private:
  std::atomic<bool> taken_{false};
  absl::Status status_;
};

}  // namespace

absl::Status RunPointwise(const HostLaunch& launch, ThreadPool& pool) {
  absl::Status status =
      CheckLaunch(launch, launch.dst.size(), launch.src.size());
  if (!status.ok()) return status;
  Workspace& workspace = ThreadWorkspace();
  status = Prepare(*launch.program,
                   {launch.dst, launch.src, {launch.floats, launch.ints}},
                   &workspace);
  if (!status.ok()) return status;
  std::atomic<bool> zero_division{false}, no_memory{false};
  pool.ParallelForOrCancel(workspace.layout.num_elements, workspace.plan.grain,
                           [&](int64_t begin, int64_t end) {
                             if (!RunPlan(workspace.plan, workspace.layout,
                                          begin, end, &zero_division)) {
                               no_memory.store(true, std::memory_order_relaxed);
                             }
                           });
  if (no_memory.load(std::memory_order_relaxed)) return NoMemory();
  if (zero_division.load(std::memory_order_relaxed)) return ZeroDivision();
  return absl::OkStatus();
}

absl::Status RunPointwiseForeach(const HostLaunch& launch, ThreadPool& pool) {
  const int64_t batch = launch.batch;
  if (batch <= 0 || launch.dst.size() % batch != 0 ||
      launch.src.size() % batch != 0) {
    return absl::InvalidArgumentError(
        "pointwise_foreach: operands don't divide into groups");
  }
  absl::Status status =
      CheckLaunch(launch, launch.dst.size() / batch, launch.src.size() / batch);
  if (!status.ok()) return status;

  // One range over the elements of all groups, cut anywhere. It stays the
  // caller's while workers read it: they only use their own plan and layout.
  std::vector<int64_t>& ends = ThreadWorkspace().group_ends;
  ends.resize(batch);
  int64_t total = 0;
  for (int64_t g = 0; g < batch; ++g) {
    total += GroupOf(launch, g).dst[0].numel();
    ends[g] = total;
  }
  std::atomic<bool> zero_division{false};
  FirstError error;
  const auto run = [&](int64_t begin, int64_t end) {
    Workspace& workspace = ThreadWorkspace();
    int64_t g =
        std::upper_bound(ends.begin(), ends.end(), begin) - ends.begin();
    for (int64_t at = begin; at < end; ++g) {
      const int64_t group_begin = g > 0 ? ends[g - 1] : 0;
      const int64_t stop = std::min(end, ends[g]);
      if (stop == at) continue;
      absl::Status prepared =
          Prepare(*launch.program, GroupOf(launch, g), &workspace);
      if (!prepared.ok()) return error.Set(std::move(prepared));
      if (!RunPlan(workspace.plan, workspace.layout, at - group_begin,
                   stop - group_begin, &zero_division)) {
        return error.Set(NoMemory());
      }
      at = stop;
    }
  };
  // Programs of optimisers have ten ops or so: a grain for those.
  constexpr int64_t kGrain = 16 << 10;
  pool.ParallelForOrCancel(total, kGrain, run);
  if (!error.status().ok()) return error.status();
  if (zero_division.load(std::memory_order_relaxed)) return ZeroDivision();
  return absl::OkStatus();
}

}  // namespace tvarant::host
