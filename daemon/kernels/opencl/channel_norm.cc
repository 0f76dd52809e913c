// channel_norm and its gradients: batch norm and group norm.

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/kernels/opencl/lines.h"
#include "daemon/kernels/opencl/opencl_kernels.h"
#include "daemon/kernels/opencl/reduce.h"
#include "daemon/kernels/opencl/sources.h"
#include "proto/base/status_macros.h"

namespace tvarant::opencl {
namespace {

constexpr int kLoops = 4;  // elements of an item in the last step
// Scratch: 0 is the reductions'.
constexpr int kStatisticsSlot = 1, kRowsSlot = 2, kSumsSlot = 3;

// load_any of channel_norm.cl.
int TypeNumber(const ResolvedOperand& vector) {
  switch (vector.dtype) {
    case DType::kFloat32:
      return 0;
    case DType::kFloat16:
      return 1;
    case DType::kBFloat16:
      return 2;
    case DType::kFloat64:
      return 3;
    default:
      return -1;
  }
}
using Vectors = std::initializer_list<const ResolvedOperand*>;

// Buffers and offsets, types, steps.
void AddVectors(Vectors vectors, KernelCall* call) {
  for (const ResolvedOperand* v : vectors) call->Operand(*v);
  for (const ResolvedOperand* v : vectors) call->Int(TypeNumber(*v));
  for (const ResolvedOperand* v : vectors) {
    call->Long(TypeNumber(*v) < 0 ? 0 : v->strides[0]);
  }
}

// Of channel_norm.cl.
struct Walk {
  int64_t sizes[3] = {1, 1, 1};
  int64_t strides[4][3] = {};
};

class ChannelNorm {
 public:
  ChannelNorm(KernelContext& context, const ResolvedLaunch& launch,
              const ResolvedOperand& x)
      : context_(context),
        launch_(launch),
        x_(x),
        batch_(x.sizes[0]),
        channels_(x.sizes[1]),
        length_(x.sizes[2]),
        groups_(launch.ints[0]),
        constant_(launch.ints[1] != 0),
        rows_(batch_ * channels_),
        statistics_(groups_ == 0 ? channels_ : batch_ * groups_),
        wide_bytes_(context.traits().has_double ? 8 : 4),
        real_bytes_(x.dtype == DType::kFloat64 ? 8 : 4),
        options_(absl::StrCat("-DT=", ClTypeName(x.dtype))) {}

  // UNIMPLEMENTED unless `same` have x's dtype and all else computes as x does.
  absl::Status Check(Vectors same) const {
    bool fits = IsFloating(x_.dtype);
    for (const ResolvedOperand* t : same) {
      fits &= t->dtype == x_.dtype || t->dtype == DType::kInvalid;
    }
    for (const auto list : {launch_.dst, launch_.src}) {
      for (const ResolvedOperand& t : list) {
        if (t.dtype == DType::kInvalid) continue;
        fits &= IsFloating(t.dtype) &&
                (t.dtype == DType::kFloat64) == (x_.dtype == DType::kFloat64);
      }
    }
    fits &= x_.dtype != DType::kFloat64 || context_.traits().has_double;
    if (fits) return absl::OkStatus();
    return absl::UnimplementedError(absl::StrCat(
        NameOf(launch_.kernel), ": no OpenCL kernel for these dtypes"));
  }

  absl::Status Forward() {
    const ResolvedOperand& y = launch_.dst[0];
    RETURN_IF_ERROR(Check({&y}));
    if (rows_ == 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(cl_mem means, context_.Scratch(Bytes(statistics_, true),
                                                    kStatisticsSlot));
    ASSIGN_OR_RETURN(cl_mem rstds,
                     context_.Scratch(Bytes(statistics_, true), kSumsSlot));
    if (!constant_) RETURN_IF_ERROR(Moments(means, rstds));
    KernelCall statistics = Kernel("channel_norm_statistics");
    statistics.Memory(means).Memory(rstds);
    AddVectors({&launch_.dst[1], &launch_.dst[2], &launch_.dst[3],
                &launch_.dst[4], &launch_.src[3], &launch_.src[4]},
               &statistics);
    statistics.Long(statistics_).Int(constant_ ? 1 : 0);
    for (const double value : {Count(), launch_.floats[0], launch_.floats[1]}) {
      AddWide(context_, value, &statistics);
    }
    RETURN_IF_ERROR(statistics.Run(statistics_));

    ASSIGN_OR_RETURN(cl_mem scales,
                     context_.Scratch(Bytes(rows_, false), kRowsSlot));
    ASSIGN_OR_RETURN(cl_mem shifts, context_.Scratch(Bytes(rows_, false), 0));
    KernelCall rows = Kernel("channel_norm_rows");
    rows.Memory(means).Memory(rstds).Memory(scales).Memory(shifts);
    AddVectors({&launch_.src[1], &launch_.src[2]}, &rows);
    rows.Long(rows_).Long(channels_).Long(groups_);
    RETURN_IF_ERROR(rows.Run(rows_));
    if (length_ == 0) return absl::OkStatus();

    KernelCall affine = Kernel("channel_norm_affine");
    affine.Operand(y).Operand(x_).Struct(WalkOf({&y, &x_}));
    affine.Memory(scales).Memory(shifts);
    return RunElements(&affine);
  }

  absl::Status Backward() {
    const ResolvedOperand &dx = launch_.dst[0], &dy = launch_.src[0];
    const ResolvedOperand &mean = launch_.src[2], &rstd = launch_.src[3],
                          &weight = launch_.src[4];
    RETURN_IF_ERROR(Check({&dx, &dy}));
    if (channels_ == 0) return absl::OkStatus();
    const bool by_columns =
        channels_ > 1 && length_ > 1 && x_.strides[1] < x_.strides[2];
    const LineShape lines = LinesOf(
        context_.traits(), std::max<int64_t>(rows_, 1), length_, by_columns);
    ASSIGN_OR_RETURN(
        cl_mem sums,
        context_.Scratch(
            Bytes(std::max<int64_t>(rows_, 1) * lines.pieces * 2, true),
            kSumsSlot));
    if (rows_ > 0) {
      KernelCall call = Kernel("channel_norm_gradient_sums");
      call.Memory(sums).Operand(dy).Operand(x_);
      AddVectors({&mean}, &call);
      call.Long(rows_).Long(channels_).Long(groups_).Long(length_);
      for (const ResolvedOperand* t : {&dy, &x_}) {
        for (int d = 0; d < 3; ++d) call.Long(t->strides[d]);
      }
      call.Long(lines.piece).Long(lines.pieces).Int(lines.height);
      call.Int(by_columns ? 1 : 0).Local(lines.group * wide_bytes_);
      RETURN_IF_ERROR(call.RunGroups(lines.num_groups, lines.group));
    }
    KernelCall channels = Kernel("channel_norm_gradient_channels");
    channels.Memory(sums);
    AddVectors({&rstd, &launch_.dst[1], &launch_.dst[2]}, &channels);
    channels.Long(batch_).Long(channels_).Long(groups_).Long(lines.pieces);
    RETURN_IF_ERROR(RunLines(channels_, batch_ * lines.pieces, &channels));
    if (dx.dtype == DType::kInvalid || rows_ == 0 || length_ == 0) {
      return absl::OkStatus();
    }

    ASSIGN_OR_RETURN(
        cl_mem averages,
        context_.Scratch(Bytes(2 * statistics_, true), kStatisticsSlot));
    if (!constant_) {
      KernelCall call = Kernel("channel_norm_gradient_averages");
      call.Memory(sums).Memory(averages);
      AddVectors({&weight}, &call);
      call.Long(statistics_).Long(batch_).Long(channels_).Long(groups_);
      call.Long(lines.pieces);
      AddWide(context_, Count(), &call);
      RETURN_IF_ERROR(
          RunLines(statistics_, rows_ / statistics_ * lines.pieces, &call));
    }
    ASSIGN_OR_RETURN(cl_mem factors,
                     context_.Scratch(Bytes(4 * rows_, false), kRowsSlot));
    KernelCall rows = Kernel("channel_norm_gradient_rows");
    rows.Memory(averages).Memory(factors);
    AddVectors({&mean, &rstd, &weight}, &rows);
    rows.Long(rows_).Long(channels_).Long(groups_).Int(constant_ ? 1 : 0);
    RETURN_IF_ERROR(rows.Run(rows_));

    KernelCall gradient = Kernel("channel_norm_gradient");
    gradient.Operand(dx).Operand(dy).Operand(x_);
    gradient.Struct(WalkOf({&dx, &dy, &x_})).Memory(factors).Long(rows_);
    return RunElements(&gradient);
  }

 private:
  KernelCall Kernel(const char* name) {
    return KernelCall(context_, kChannelNormCl, name, options_);
  }

  uint64_t Bytes(int64_t count, bool wide) const {
    return static_cast<uint64_t>(count) * (wide ? wide_bytes_ : real_bytes_);
  }

  // Elements behind one statistic.
  double Count() const {
    return static_cast<double>(length_) *
           static_cast<double>(groups_ == 0 ? batch_ : channels_ / groups_);
  }

  // [N, C, L] seen as [N, groups, C / groups, L], or as it is.
  absl::Status Moments(cl_mem means, cl_mem variances) {
    ResolvedOperand x = x_, y = x_;
    const int64_t in_group = groups_ == 0 ? channels_ : channels_ / groups_;
    const int64_t sizes[] = {batch_, groups_, in_group, length_};
    const int64_t strides[] = {x_.strides[0], x_.strides[1] * in_group,
                               x_.strides[1], x_.strides[2]};
    const int64_t kept_sizes[] = {batch_, groups_, 1, 1};
    const int64_t kept_strides[] = {groups_, 1, 0, 0};
    const int64_t channel_sizes[] = {1, channels_, 1};
    const int64_t channel_strides[] = {0, 1, 0};
    y.rank = x.rank = groups_ == 0 ? 3 : 4;
    y.sizes = groups_ == 0 ? channel_sizes : kept_sizes;
    y.strides = groups_ == 0 ? channel_strides : kept_strides;
    if (groups_ != 0) {
      x.sizes = sizes;
      x.strides = strides;
    }
    return ReduceMoments(context_, x, y, means, variances);
  }

  // The tensors and, as last, the numbers of rows, in the order of the first
  // one's memory.
  Walk WalkOf(Vectors tensors) const {
    ResolvedOperand numbers = x_;
    const int64_t strides[] = {channels_, 1, 0};
    numbers.strides = strides;
    std::vector<const ResolvedOperand*> operands(tensors);
    operands.push_back(&numbers);
    const std::vector<ClView> views = JoinedViews(operands, ViewOrder::kMemory);
    Walk walk;
    const int rank = static_cast<int>(views[0].rank);
    for (int d = 0; d < rank; ++d) {
      const int to = 3 - rank + d;
      walk.sizes[to] = views[0].sizes[d];
      for (size_t k = 0; k < views.size(); ++k) {
        walk.strides[k][to] = views[k].strides[d];
      }
    }
    return walk;
  }

  // Adds the number of elements and how they are walked.
  absl::Status RunElements(KernelCall* call) const {
    const int64_t count = rows_ * length_;
    const int64_t group = context_.traits().group_size;
    call->Long(count)
        .Int(count < std::numeric_limits<int32_t>::max() ? 1 : 0)
        .Int(kLoops);
    return call->RunGroups((count + group * kLoops - 1) / (group * kLoops),
                           context_.traits().group_size);
  }

  // One line of items for each of `outputs`.
  absl::Status RunLines(int64_t outputs, int64_t terms,
                        KernelCall* call) const {
    const LineShape lines =
        WholeLinesOf(context_.traits(), outputs, terms, false, 1);
    call->Int(lines.height).Local(lines.group * wide_bytes_);
    return call->RunGroups(lines.num_groups, lines.group);
  }

  KernelContext& context_;
  const ResolvedLaunch& launch_;
  const ResolvedOperand& x_;
  const int64_t batch_, channels_, length_, groups_;
  const bool constant_;
  const int64_t rows_, statistics_;
  const size_t wide_bytes_, real_bytes_;
  const std::string options_;
};

}  // namespace

absl::Status RunChannelNorm(KernelContext& context,
                            const ResolvedLaunch& launch) {
  return ChannelNorm(context, launch, launch.src[0]).Forward();
}

absl::Status RunChannelNormBackward(KernelContext& context,
                                    const ResolvedLaunch& launch) {
  return ChannelNorm(context, launch, launch.src[1]).Backward();
}

}  // namespace tvarant::opencl
