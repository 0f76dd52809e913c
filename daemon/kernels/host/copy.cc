#include "daemon/kernels/host/copy.h"

#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "daemon/kernels/host/bit_copy.h"
#include "daemon/kernels/host/fill.h"
#include "proto/base/status_macros.h"

namespace tvarant::host {
namespace {

// y = x, or y = -x, as a pointwise program; the store converts.
const Program& CopyProgram(DType dtype, bool negate) {
  struct Programs {
    Program of[kNumDTypes][2];
    Programs() {
      for (int i = 0; i < kNumDTypes; ++i) {
        for (int n = 0; n < 2; ++n) {
          const DType type = static_cast<DType>(i);
          ProgramBuilder builder;
          const int x = builder.Load(0, type);
          builder.Store(n ? builder.Op(PointwiseOp::kNeg, type, x) : x);
          of[i][n] = std::move(builder).Build();
        }
      }
    }
  };
  static const Programs* const programs = new Programs;
  return programs->of[static_cast<int>(dtype)][negate];
}

absl::Status CopyReal(const Tensor& dst, const Tensor& src, bool negate,
                      ThreadPool& pool) {
  if (dst.dtype == src.dtype && !negate) {
    BitCopy(dst, src, pool);
    return absl::OkStatus();
  }
  if (ComputeClassOf(dst.dtype) == ComputeClass::kNone ||
      ComputeClassOf(src.dtype) == ComputeClass::kNone) {
    return absl::UnimplementedError(absl::StrCat("copy: no conversion from ",
                                                 NameOf(src.dtype), " to ",
                                                 NameOf(dst.dtype)));
  }
  HostLaunch launch;
  launch.kernel = Kernel::kPointwise;
  launch.program = &CopyProgram(src.dtype, negate);
  launch.dst = absl::MakeConstSpan(&dst, 1);
  launch.src = absl::MakeConstSpan(&src, 1);
  return RunPointwise(launch, pool);
}

// The real or the imaginary parts of a complex tensor, as a real one.
class Part {
 public:
  Part(const Tensor& tensor, int imaginary) : tensor_(tensor) {
    tensor_.dtype =
        tensor.dtype == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64;
    tensor_.data += imaginary * static_cast<int64_t>(SizeOf(tensor_.dtype));
    for (int i = 0; i < tensor.rank; ++i) strides_[i] = tensor.strides[i] * 2;
    tensor_.strides = strides_.data();
  }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  const Tensor& tensor() const { return tensor_; }

 private:
  Tensor tensor_;
  std::array<int64_t, kMaxRank> strides_;
};

// A complex number is true when either of its parts is not 0.
absl::Status CopyTruth(const Tensor& dst, const Tensor& real,
                       const Tensor& imaginary, ThreadPool& pool) {
  ProgramBuilder builder;
  const int a = builder.Load(0, real.dtype);
  const int b = builder.Load(1, real.dtype);
  builder.Store(builder.Op(PointwiseOp::kLogicalOr, DType::kBool, a, b));
  const Program program = std::move(builder).Build();
  const Tensor src[2] = {real, imaginary};
  HostLaunch launch;
  launch.kernel = Kernel::kPointwise;
  launch.program = &program;
  launch.dst = absl::MakeConstSpan(&dst, 1);
  launch.src = absl::MakeConstSpan(src, 2);
  return RunPointwise(launch, pool);
}

absl::Status CopyComplex(const Tensor& dst, const Tensor& src, uint32_t flags,
                         ThreadPool& pool) {
  const bool negate = (flags & kNegate) != 0;
  const bool conjugate = (flags & kConjugate) != 0;
  if (!IsComplex(src.dtype)) {
    RETURN_IF_ERROR(CopyReal(Part(dst, 0).tensor(), src, negate, pool));
    FillTensor(Part(dst, 1).tensor(), 0, 0, pool);
    return absl::OkStatus();
  }
  const Part real(src, 0);
  if (dst.dtype == DType::kBool) {
    const Part imaginary(src, 1);
    return CopyTruth(dst, real.tensor(), imaginary.tensor(), pool);
  }
  if (!IsComplex(dst.dtype)) return CopyReal(dst, real.tensor(), negate, pool);
  if (dst.dtype == src.dtype && !negate && !conjugate) {
    BitCopy(dst, src, pool);
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(CopyReal(Part(dst, 0).tensor(), real.tensor(), negate, pool));
  return CopyReal(Part(dst, 1).tensor(), Part(src, 1).tensor(),
                  negate != conjugate, pool);
}

}  // namespace

absl::Status CopyTensor(const Tensor& dst, const Tensor& src, uint32_t flags,
                        ThreadPool& pool) {
  if (IsComplex(dst.dtype) || IsComplex(src.dtype)) {
    return CopyComplex(dst, src, flags, pool);
  }
  return CopyReal(dst, src, (flags & kNegate) != 0, pool);
}

absl::Status RunCopy(const HostLaunch& launch, ThreadPool& pool) {
  return CopyTensor(launch.dst[0], launch.src[0], launch.flags, pool);
}

}  // namespace tvarant::host
