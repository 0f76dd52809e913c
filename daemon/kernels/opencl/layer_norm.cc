// layer_norm over the rows of a matrix, and its gradients.

#include <algorithm>
#include <initializer_list>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/kernels/opencl/lines.h"
#include "daemon/kernels/opencl/opencl_kernels.h"
#include "daemon/kernels/opencl/sources.h"
#include "proto/base/status_macros.h"

namespace tvarant::opencl {
namespace {

bool IsPresent(const ResolvedOperand& operand) {
  return operand.dtype != DType::kInvalid;
}

DType TypeOr(const ResolvedOperand& operand, DType other) {
  return IsPresent(operand) ? operand.dtype : other;
}

// kInvalid where they differ.
DType SharedType(const ResolvedOperand& a, const ResolvedOperand& b) {
  return a.dtype == b.dtype ? a.dtype : DType::kInvalid;
}

// Steps of [M, N] and of [N] or [M]; 0 for what is not there.
int64_t RowStep(const ResolvedOperand& t) {
  return IsPresent(t) ? t.strides[0] : 0;
}
int64_t ColumnStep(const ResolvedOperand& t) {
  return IsPresent(t) ? t.strides[1] : 0;
}

class Norm {
 public:
  Norm(KernelContext& context, const ResolvedLaunch& launch,
       const ResolvedOperand& x)
      : context_(context),
        launch_(launch),
        rows_(x.sizes[0]),
        n_(x.sizes[1]),
        wide_(x.dtype == DType::kFloat64),
        by_columns_(rows_ > 1 && n_ > 1 && x.strides[0] < x.strides[1]) {}

  // UNIMPLEMENTED unless all types are there and compute as x does.
  absl::Status SetTypes(DType x, DType y, DType statistics, DType weight,
                        DType bias) {
    for (const DType dtype : {x, y, statistics, weight, bias}) {
      if (!IsFloating(dtype) || (dtype == DType::kFloat64) != wide_ ||
          (wide_ && !context_.traits().has_double)) {
        return absl::UnimplementedError(absl::StrCat(
            NameOf(launch_.kernel), ": no OpenCL kernel for these dtypes"));
      }
    }
    options_ =
        absl::StrCat("-DT=", ClTypeName(x), " -DOT=", ClTypeName(y),
                     " -DST=", ClTypeName(statistics),
                     " -DWT=", ClTypeName(weight), " -DBT=", ClTypeName(bias));
    return absl::OkStatus();
  }

  absl::Status Forward() {
    const ResolvedOperand &y = launch_.dst[0], &mean = launch_.dst[1],
                          &rstd = launch_.dst[2];
    const ResolvedOperand &x = launch_.src[0], &weight = launch_.src[1],
                          &bias = launch_.src[2];
    RETURN_IF_ERROR(SetTypes(x.dtype, y.dtype, SharedType(mean, rstd),
                             TypeOr(weight, x.dtype), TypeOr(bias, x.dtype)));
    if (rows_ == 0) return absl::OkStatus();
    const LineShape lines = ChooseLines();
    KernelCall call(context_, kLayerNormCl,
                    keep_ > 0 ? "layer_norm_rows" : "layer_norm_long",
                    RowOptions({&x, &weight, &bias, &y}));
    call.Operand(y).Operand(mean).Operand(rstd);
    call.Operand(x).Operand(weight).Operand(bias);
    call.Long(rows_).Long(n_);
    call.Long(RowStep(y)).Long(ColumnStep(y));
    call.Long(RowStep(mean)).Long(RowStep(rstd));
    call.Long(RowStep(x)).Long(ColumnStep(x));
    call.Long(RowStep(weight)).Long(RowStep(bias));
    call.Int(IsPresent(weight)).Int(IsPresent(bias));
    AddLines(lines, &call);
    AddReal(launch_.scalar, &call);
    return call.RunGroups(lines.num_groups, lines.group);
  }

  absl::Status Backward() {
    const ResolvedOperand &dx = launch_.dst[0], &dweight = launch_.dst[1],
                          &dbias = launch_.dst[2];
    const ResolvedOperand &dy = launch_.src[0], &x = launch_.src[1],
                          &weight = launch_.src[4];
    const DType inputs = SharedType(dy, x);
    const DType statistics = SharedType(launch_.src[2], launch_.src[3]);
    // All types are looked at before anything is queued.
    const auto set_column_types = [&] {
      return SetTypes(inputs, inputs, statistics, TypeOr(dweight, x.dtype),
                      TypeOr(dbias, x.dtype));
    };
    RETURN_IF_ERROR(set_column_types());
    RETURN_IF_ERROR(SetTypes(inputs, TypeOr(dx, x.dtype), statistics,
                             TypeOr(weight, x.dtype), x.dtype));
    if (IsPresent(dx) && rows_ > 0 && n_ > 0) RETURN_IF_ERROR(BackwardRows());
    if ((!IsPresent(dweight) && !IsPresent(dbias)) || n_ == 0) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(set_column_types());
    return BackwardColumns();
  }

 private:
  absl::Status BackwardRows() {
    const ResolvedOperand &dx = launch_.dst[0], &dy = launch_.src[0],
                          &x = launch_.src[1], &mean = launch_.src[2],
                          &rstd = launch_.src[3], &weight = launch_.src[4];
    const LineShape lines = ChooseLines();
    KernelCall call(
        context_, kLayerNormCl,
        keep_ > 0 ? "layer_norm_backward_rows" : "layer_norm_backward_long",
        RowOptions({&dy, &x, &weight, &dx}));
    call.Operand(dx).Operand(dy).Operand(x);
    call.Operand(mean).Operand(rstd).Operand(weight);
    call.Long(rows_).Long(n_);
    call.Long(RowStep(dx)).Long(ColumnStep(dx));
    call.Long(RowStep(dy)).Long(ColumnStep(dy));
    call.Long(RowStep(x)).Long(ColumnStep(x));
    call.Long(RowStep(mean)).Long(RowStep(rstd));
    call.Long(RowStep(weight)).Int(IsPresent(weight));
    AddLines(lines, &call);
    return call.RunGroups(lines.num_groups, lines.group);
  }

  absl::Status BackwardColumns() {
    const ResolvedOperand &dweight = launch_.dst[1], &dbias = launch_.dst[2],
                          &dy = launch_.src[0], &x = launch_.src[1],
                          &mean = launch_.src[2], &rstd = launch_.src[3];
    const LineShape lines = LinesOf(context_.traits(), n_, rows_, true);
    ASSIGN_OR_RETURN(cl_mem sums,
                     context_.Scratch(static_cast<uint64_t>(
                         2 * lines.pieces * n_ * (wide_ ? 8 : 4))));
    KernelCall call(context_, kLayerNormCl, "layer_norm_backward_columns",
                    options_);
    call.Memory(sums).Operand(dy).Operand(x).Operand(mean).Operand(rstd);
    call.Long(rows_).Long(n_);
    call.Long(RowStep(dy)).Long(ColumnStep(dy));
    call.Long(RowStep(x)).Long(ColumnStep(x));
    call.Long(RowStep(mean)).Long(RowStep(rstd));
    call.Long(lines.piece).Long(lines.pieces).Int(lines.height);
    call.Local(lines.group * (wide_ ? 8 : 4));
    RETURN_IF_ERROR(call.RunGroups(lines.num_groups, lines.group));
    return KernelCall(context_, kLayerNormCl, "layer_norm_backward_join",
                      options_)
        .Memory(sums)
        .Operand(dweight)
        .Operand(dbias)
        .Long(n_)
        .Long(lines.pieces)
        .Long(RowStep(dweight))
        .Long(RowStep(dbias))
        .Int(IsPresent(dweight))
        .Int(IsPresent(dbias))
        .Run(n_);
  }

  LineShape ChooseLines() {
    keep_ = KeepOf(context_.traits(), rows_, n_, by_columns_);
    return WholeLinesOf(context_.traits(), rows_, n_, by_columns_,
                        keep_ > 0 ? keep_ : kMaxKeep);
  }

  std::string RowOptions(
      std::initializer_list<const ResolvedOperand*> tensors) const {
    bool by_vectors = n_ % 4 == 0;
    for (const ResolvedOperand* tensor : tensors) {
      if (!IsPresent(*tensor)) continue;
      by_vectors &= ColumnStep(*tensor) == 1 && RowStep(*tensor) % 4 == 0 &&
                    AlignedBy4(*tensor);
    }
    std::string options = options_;
    AddKeep(keep_, by_vectors, &options);
    return options;
  }

  void AddLines(const LineShape& lines, KernelCall* call) const {
    call->Int(lines.height)
        .Int(by_columns_ ? 1 : 0)
        .Local(lines.group * (wide_ ? 8 : 4));
  }

  void AddReal(double value, KernelCall* call) const {
    if (wide_) {
      call->Double(value);
    } else {
      call->Float(static_cast<float>(value));
    }
  }

  KernelContext& context_;
  const ResolvedLaunch& launch_;
  const int64_t rows_, n_;
  const bool wide_;
  const bool by_columns_;
  std::string options_;
  int keep_ = 0;
};

}  // namespace

absl::Status RunLayerNorm(KernelContext& context,
                          const ResolvedLaunch& launch) {
  return Norm(context, launch, launch.src[0]).Forward();
}

absl::Status RunLayerNormBackward(KernelContext& context,
                                  const ResolvedLaunch& launch) {
  return Norm(context, launch, launch.src[1]).Backward();
}

}  // namespace tvarant::opencl
