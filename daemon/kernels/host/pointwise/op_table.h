// The inner loops of the pointwise kernels, by instruction set.
//
// Values of a program stand in registers: arrays of the computing type of
// their ComputeClass (int32_t, int64_t, float, double). A loop reads up to
// three registers and writes one; loads and stores convert between registers
// and tensors of any dtype.
//
// Example:
//   const OpTable& table = GetOpTable();
//   table.ops[ClassIndex(ComputeClass::kF32)][op](dst, a, b, nullptr, n, 0);

#ifndef TVARANT_DAEMON_KERNELS_HOST_POINTWISE_OP_TABLE_H_
#define TVARANT_DAEMON_KERNELS_HOST_POINTWISE_OP_TABLE_H_

#include <cstdint>

#include "daemon/kernels/host/isa.h"
#include "proto/base/dtype.h"

namespace tvarant::host {

inline constexpr int kNumPointwiseOps = 256;  // codes of pointwise_ops.inc
inline constexpr int kNumClasses = 4;

constexpr int ClassIndex(ComputeClass compute_class) {
  return static_cast<int>(compute_class) - 1;
}

// Bytes of one element of a register.
constexpr int64_t ClassBytes(ComputeClass compute_class) {
  return compute_class == ComputeClass::kI32 ||
                 compute_class == ComputeClass::kF32
             ? 4
             : 8;
}

// dst[i] = op(a[i], b[i], c[i]). dst may be a, b or c, but not overlap them
// otherwise. `alpha`: as ProgramNode::immediate.
using OpLoop = void (*)(void* dst, const void* a, const void* b, const void* c,
                        int64_t n, uint64_t alpha);
// Tensor elements, `stride` bytes apart, into a register of their own class.
using LoadLoop = void (*)(void* dst, const char* src, int64_t stride,
                          int64_t n);
// A register into tensor elements of the same class, rounded or wrapped.
using StoreLoop = void (*)(char* dst, int64_t stride, const void* src,
                           int64_t n);
// Whether any element is 0.
using AnyZeroLoop = bool (*)(const void* src, int64_t n);

// Null where a combination does not exist.
struct OpTable {
  // By class of the first operand (of b for kWhere) and op code. Without
  // sources, Identity and Cast.
  OpLoop ops[kNumClasses][kNumPointwiseOps] = {};
  // kAdd with alpha 1.
  OpLoop plain_add[kNumClasses] = {};
  LoadLoop load[kNumDTypes] = {};
  StoreLoop store[kNumDTypes] = {};
  // From class to class, as a C cast; out of range gives the lowest integer.
  OpLoop cast[kNumClasses][kNumClasses] = {};
  // value != 0, by class.
  OpLoop to_bool[kNumClasses] = {};
  // Rounds or wraps a register of the dtype's class to the dtype's values;
  // null if the class has no others.
  OpLoop round[kNumDTypes] = {};
  AnyZeroLoop any_zero[kNumClasses] = {};  // integers only
};

TVARANT_DECLARE_FOR_ISAS(const OpTable& GetOpTableOfIsa())

// The table of the instruction set in use. Thread-safe.
inline const OpTable& GetOpTable() {
  return TVARANT_FOR_ISA(GetOpTableOfIsa)();
}

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_POINTWISE_OP_TABLE_H_
