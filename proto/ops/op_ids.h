// Numbers of kernels, pointwise ops, reductions, activations, distributions.
//
// Plain C++, made from the tables beside it. The numbers are part of the
// protocol.

#ifndef TVARANT_PROTO_OPS_OP_IDS_H_
#define TVARANT_PROTO_OPS_OP_IDS_H_

#include <cstdint>

namespace tvarant {

enum class Kernel : uint16_t {
  kInvalid = 0,
#define TVARANT_KERNEL(id, Name, name, min_dst, max_dst, min_src, max_src, \
                       doc)                                                \
  k##Name = id,
#include "proto/ops/kernels.inc"
};

// Ops of a pointwise program; proto/ops/pointwise_ops.inc has the meaning.
enum class PointwiseOp : uint16_t {
#define TVARANT_POINTWISE_OP(code, Name, name, arity, types, result, expr, \
                             doc)                                          \
  k##Name = code,
#include "proto/ops/pointwise_ops.inc"
};

// Activation of the GEMM epilogue. 0-2 are the numbers of the linear_act op.
enum class Act : uint8_t {
  kNone = 0,
  kRelu = 1,
  kSilu = 2,
  kGelu = 3,      // exact, with erf
  kGeluTanh = 4,  // tanh approximation
};

enum class ReduceOp : uint8_t {
  kSum = 1,
  kMean = 2,
  kProd = 3,
  kMax = 4,     // NaN wins, as in PyTorch (amax)
  kMin = 5,     // NaN wins (amin)
  kArgMax = 6,  // first index; NaN wins. Row-major index over reduced dims
  kArgMin = 7,
  kMaxDim = 8,  // dst[0] values, dst[1] int64 indices
  kMinDim = 9,
  kAny = 10,  // dst bool (or uint8 for a uint8 input)
  kAll = 11,
  kNorm = 12,        // (sum |x|^p)^(1/p); p = scalar, inf and 0 included
  kVar = 13,         // scalar = correction; dst[1], if there, is the mean
  kStd = 14,         // as kVar
  kSumSquares = 15,  // sum of x*x
  kCountNonzero = 16,
  kLogSumExp = 17,
  kNanSum = 18,
};

enum class Distribution : uint8_t {
  kUniform = 1,      // floats a <= x < b
  kNormal = 2,       // mean a, standard deviation b (Box-Muller)
  kBernoulli = 3,    // 1 with probability a
  kInteger = 4,      // ints low <= x < high (high - low as unsigned 64 bit)
  kExponential = 5,  // rate a
  kFullInteger = 6,  // any int64
};

// How a value joins the element that it is put to.
enum class PutMode : int64_t {
  kSet = 0,
  kAdd = 1,
  kMultiply = 2,
  kMax = 3,  // NaN wins
  kMin = 4,  // NaN wins
};

enum class OrderStatistic : int64_t {
  kKth = 0,        // by its number in rising order, NaN last
  kMedian = 1,     // the lower one of two; the first NaN if there is any
  kNanMedian = 2,  // without the NaNs
  kMode = 3,       // the smallest most frequent one, where it stands last
};

// Bits of LaunchParams::flags.
enum LaunchFlags : uint32_t {
  kConjugate = 1u << 0,
  kNegate = 1u << 1,
  kPerGroupScalars = 1u << 2,
  kWrapNegative = 1u << 3,
};

// Name for errors and counters; "unknown" for numbers not in the table.
constexpr const char* NameOf(Kernel kernel) {
  switch (kernel) {
#define TVARANT_KERNEL(id, Name, name, min_dst, max_dst, min_src, max_src, \
                       doc)                                                \
  case Kernel::k##Name:                                                    \
    return #name;
#include "proto/ops/kernels.inc"
    default:
      return "unknown";
  }
}

constexpr const char* NameOf(PointwiseOp op) {
  switch (op) {
#define TVARANT_POINTWISE_OP(code, Name, name, arity, types, result, expr, \
                             doc)                                          \
  case PointwiseOp::k##Name:                                               \
    return #name;
#include "proto/ops/pointwise_ops.inc"
    default:
      return "unknown";
  }
}

}  // namespace tvarant

#endif  // TVARANT_PROTO_OPS_OP_IDS_H_
