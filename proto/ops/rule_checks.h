// What the rules of shape_rules.cc and rules_*.cc are written with.
//
// Each Want* returns OK or the error sentence. The sentences are built out of
// line, so that a launch that passes pays for comparisons only. Rules run
// after the checks that hold for every kernel (CheckOperands): operands that
// are not optional are present, dtypes known, extents within limits.

#ifndef TVARANT_PROTO_OPS_RULE_CHECKS_H_
#define TVARANT_PROTO_OPS_RULE_CHECKS_H_

#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "proto/base/dtype.h"
#include "proto/base/status_macros.h"
#include "proto/ops/program.h"
#include "proto/wire/launch_params.h"

namespace tvarant::rules {

// One rule for each kernel of the table.
#define TVARANT_KERNEL(id, Name, name, min_dst, max_dst, min_src, max_src, \
                       doc)                                                \
  absl::Status Check##Name(const LaunchParams& params, const Program* program);
#include "proto/ops/kernels.inc"

// "<kernel>: <text>"
ABSL_ATTRIBUTE_COLD absl::Status LaunchError(const LaunchParams& params,
                                             const std::string& text);
// "<kernel>: src 1 <text>"; `operand` is one of the launch's.
ABSL_ATTRIBUTE_COLD absl::Status OperandError(const LaunchParams& params,
                                              const Operand& operand,
                                              const std::string& text);
ABSL_ATTRIBUTE_COLD absl::Status DTypeError(const LaunchParams& params,
                                            const Operand& operand,
                                            const char* want);
ABSL_ATTRIBUTE_COLD absl::Status RankError(const LaunchParams& params,
                                           const Operand& operand,
                                           const char* comparison, int want);
ABSL_ATTRIBUTE_COLD absl::Status SizesError(const LaunchParams& params,
                                            const Operand& operand,
                                            const int64_t* want, int rank);
ABSL_ATTRIBUTE_COLD absl::Status CountError(const LaunchParams& params,
                                            const char* what, int64_t got,
                                            int64_t want);
ABSL_ATTRIBUTE_COLD absl::Status ParameterError(const LaunchParams& params,
                                                const char* name, double got,
                                                const char* want);
ABSL_ATTRIBUTE_COLD absl::Status ParameterError(const LaunchParams& params,
                                                const char* name, int64_t got,
                                                const char* want);

inline bool IsPresent(const Operand& operand) {
  return operand.dtype != DType::kInvalid;
}

inline bool IsHalf(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16;
}

inline bool IsComputable(DType dtype) {
  return ComputeClassOf(dtype) != ComputeClass::kNone;
}

// float32 may stand in for a half type: as a result that keeps the precision
// of the computation, or as a parameter kept in full precision.
inline bool IsSameOrWider(DType dtype, DType than) {
  return dtype == than || (dtype == DType::kFloat32 && IsHalf(than));
}

inline bool HasSizes(const Operand& operand, const int64_t* sizes, int rank) {
  if (operand.rank != rank) return false;
  for (int i = 0; i < rank; ++i) {
    if (operand.sizes[i] != sizes[i]) return false;
  }
  return true;
}

inline absl::Status WantDType(const LaunchParams& params,
                              const Operand& operand, DType want) {
  if (ABSL_PREDICT_TRUE(operand.dtype == want)) return absl::OkStatus();
  return DTypeError(params, operand, NameOf(want));
}

inline absl::Status WantFloating(const LaunchParams& params,
                                 const Operand& operand) {
  if (ABSL_PREDICT_TRUE(IsFloating(operand.dtype))) return absl::OkStatus();
  return DTypeError(params, operand, "a float dtype");
}

inline absl::Status WantComputable(const LaunchParams& params,
                                   const Operand& operand) {
  if (ABSL_PREDICT_TRUE(IsComputable(operand.dtype))) return absl::OkStatus();
  return DTypeError(params, operand, "a dtype that can be computed with");
}

inline absl::Status WantIndex(const LaunchParams& params,
                              const Operand& operand) {
  if (ABSL_PREDICT_TRUE(operand.dtype == DType::kInt64 ||
                        operand.dtype == DType::kInt32)) {
    return absl::OkStatus();
  }
  return DTypeError(params, operand, "int64 or int32");
}

inline absl::Status WantSameOrWider(const LaunchParams& params,
                                    const Operand& operand, DType than) {
  if (ABSL_PREDICT_TRUE(IsSameOrWider(operand.dtype, than))) {
    return absl::OkStatus();
  }
  return DTypeError(params, operand, NameOf(than));
}

inline absl::Status WantRank(const LaunchParams& params, const Operand& operand,
                             int want) {
  if (ABSL_PREDICT_TRUE(operand.rank == want)) return absl::OkStatus();
  return RankError(params, operand, "", want);
}

inline absl::Status WantRankAtLeast(const LaunchParams& params,
                                    const Operand& operand, int want) {
  if (ABSL_PREDICT_TRUE(operand.rank >= want)) return absl::OkStatus();
  return RankError(params, operand, "at least ", want);
}

inline absl::Status WantSizes(const LaunchParams& params,
                              const Operand& operand, const int64_t* sizes,
                              int rank) {
  if (ABSL_PREDICT_TRUE(HasSizes(operand, sizes, rank))) {
    return absl::OkStatus();
  }
  return SizesError(params, operand, sizes, rank);
}

inline absl::Status WantSizes(const LaunchParams& params,
                              const Operand& operand,
                              std::initializer_list<int64_t> sizes) {
  return WantSizes(params, operand, sizes.begin(),
                   static_cast<int>(sizes.size()));
}

inline absl::Status WantSizesOf(const LaunchParams& params,
                                const Operand& operand, const Operand& other) {
  return WantSizes(params, operand, other.sizes, other.rank);
}

// Exact numbers of ints and floats.
inline absl::Status WantParameters(const LaunchParams& params, int num_ints,
                                   int num_floats) {
  if (ABSL_PREDICT_FALSE(params.num_ints != num_ints)) {
    return CountError(params, "ints", params.num_ints, num_ints);
  }
  if (ABSL_PREDICT_FALSE(params.num_floats != num_floats)) {
    return CountError(params, "floats", params.num_floats, num_floats);
  }
  return absl::OkStatus();
}

// `dim` names a dimension of an operand, which therefore has one.
inline absl::Status WantDim(const LaunchParams& params, const Operand& operand,
                            int64_t dim) {
  RETURN_IF_ERROR(WantRankAtLeast(params, operand, 1));
  if (ABSL_PREDICT_TRUE(dim >= 0 && dim < operand.rank)) {
    return absl::OkStatus();
  }
  return ParameterError(params, "dim", dim, "a dimension of the operands");
}

// Sizes equal but for dimension `dim`.
absl::Status WantSizesOfExcept(const LaunchParams& params,
                               const Operand& operand, const Operand& other,
                               int64_t dim);
// Sizes at most those of `other` but for dimension `dim`.
absl::Status WantSizesWithin(const LaunchParams& params, const Operand& operand,
                             const Operand& other, int64_t dim);

inline int64_t NumElements(const Operand& operand) {
  int64_t count = 1;
  for (int i = 0; i < operand.rank; ++i) count *= operand.sizes[i];
  return count;
}

}  // namespace tvarant::rules

#endif  // TVARANT_PROTO_OPS_RULE_CHECKS_H_
