// Loops over the expressions of pointwise_ops.inc for one computing type.
//
// op_loops_<type>.cc includes this and calls FillOps<type>.
//
// Textual: include under TVARANT_ISA.

#ifndef TVARANT_DAEMON_KERNELS_HOST_POINTWISE_OP_LOOPS_H_
#define TVARANT_DAEMON_KERNELS_HOST_POINTWISE_OP_LOOPS_H_

#include <cstdint>

#include "daemon/kernels/host/pointwise/element_math.h"
#include "daemon/kernels/host/pointwise/op_table.h"
#include "proto/ops/op_ids.h"

namespace tvarant::host::TVARANT_ISA {

template <typename T>
inline constexpr bool kIsFloat = T(1) / T(2) != T(0);

// Types of the results: S is the operands' type, B a bool in an int32_t.
template <typename T>
using ResultS = T;
template <typename T>
using ResultB = int32_t;

// An op without an expression has a body below, or none.
template <typename R>
TVARANT_ELEMENT R Value() {
  return R(0);
}
template <typename R, typename X>
TVARANT_ELEMENT R Value(X x) {
  return static_cast<R>(x);
}

#define TVARANT_POINTWISE_OP(code, Name, name, arity, types, result, expr, \
                             doc)                                          \
  template <typename T>                                                    \
  struct Name##Expression {                                                \
    using Result = Result##result<T>;                                      \
    TVARANT_ELEMENT static Result Of([[maybe_unused]] T a,                 \
                                     [[maybe_unused]] T b,                 \
                                     [[maybe_unused]] T c) {               \
      return Value<Result>(expr);                                          \
    }                                                                      \
  };
#include "proto/ops/pointwise_ops.inc"

template <typename T, typename E>
void Loop1(void* dst, const void* a, const void*, const void*, int64_t n,
           uint64_t) {
  auto* y = static_cast<typename E::Result*>(dst);
  auto* x = static_cast<const T*>(a);
  TVARANT_LOOP
  for (int64_t i = 0; i < n; ++i) y[i] = E::Of(x[i], T(0), T(0));
}

template <typename T, typename E>
void Loop2(void* dst, const void* a, const void* b, const void*, int64_t n,
           uint64_t) {
  auto* y = static_cast<typename E::Result*>(dst);
  auto* x0 = static_cast<const T*>(a);
  auto* x1 = static_cast<const T*>(b);
  TVARANT_LOOP
  for (int64_t i = 0; i < n; ++i) y[i] = E::Of(x0[i], x1[i], T(0));
}

template <typename T, typename E>
void Loop3(void* dst, const void* a, const void* b, const void* c, int64_t n,
           uint64_t) {
  auto* y = static_cast<typename E::Result*>(dst);
  auto* x0 = static_cast<const T*>(a);
  auto* x1 = static_cast<const T*>(b);
  auto* x2 = static_cast<const T*>(c);
  TVARANT_LOOP
  for (int64_t i = 0; i < n; ++i) y[i] = E::Of(x0[i], x1[i], x2[i]);
}

// Alpha of a node in the computing type.
template <typename T>
TVARANT_ELEMENT T AlphaOf(uint64_t bits) {
  if constexpr (kIsFloat<T>) {
    return static_cast<T>(__builtin_bit_cast(double, bits));
  } else {
    return static_cast<T>(bits);
  }
}

template <typename T>
void PlainAddLoop(void* dst, const void* a, const void* b, const void*,
                  int64_t n, uint64_t) {
  auto* y = static_cast<T*>(dst);
  auto* x0 = static_cast<const T*>(a);
  auto* x1 = static_cast<const T*>(b);
  TVARANT_LOOP
  for (int64_t i = 0; i < n; ++i) y[i] = x0[i] + x1[i];
}

// a + alpha * b
template <typename T>
void AddLoop(void* dst, const void* a, const void* b, const void*, int64_t n,
             uint64_t bits) {
  const T alpha = AlphaOf<T>(bits);
  auto* y = static_cast<T*>(dst);
  auto* x0 = static_cast<const T*>(a);
  auto* x1 = static_cast<const T*>(b);
  TVARANT_LOOP
  for (int64_t i = 0; i < n; ++i) y[i] = x0[i] + alpha * x1[i];
}

// alpha * a
template <typename T>
void ScaleLoop(void* dst, const void* a, const void*, const void*, int64_t n,
               uint64_t bits) {
  const T alpha = AlphaOf<T>(bits);
  auto* y = static_cast<T*>(dst);
  auto* x = static_cast<const T*>(a);
  TVARANT_LOOP
  for (int64_t i = 0; i < n; ++i) y[i] = alpha * x[i];
}

// a + alpha * b * c
template <typename T>
void AddcmulLoop(void* dst, const void* a, const void* b, const void* c,
                 int64_t n, uint64_t bits) {
  const T alpha = AlphaOf<T>(bits);
  auto* y = static_cast<T*>(dst);
  auto* x0 = static_cast<const T*>(a);
  auto* x1 = static_cast<const T*>(b);
  auto* x2 = static_cast<const T*>(c);
  TVARANT_LOOP
  for (int64_t i = 0; i < n; ++i) y[i] = x0[i] + alpha * x1[i] * x2[i];
}

// a + alpha * b / c
template <typename T>
void AddcdivLoop(void* dst, const void* a, const void* b, const void* c,
                 int64_t n, uint64_t bits) {
  const T alpha = AlphaOf<T>(bits);
  auto* y = static_cast<T*>(dst);
  auto* x0 = static_cast<const T*>(a);
  auto* x1 = static_cast<const T*>(b);
  auto* x2 = static_cast<const T*>(c);
  TVARANT_LOOP
  for (int64_t i = 0; i < n; ++i) y[i] = x0[i] + alpha * x1[i] / x2[i];
}

// a != 0 ? b : c
template <typename T>
void WhereLoop(void* dst, const void* a, const void* b, const void* c,
               int64_t n, uint64_t) {
  auto* y = static_cast<T*>(dst);
  auto* x0 = static_cast<const int32_t*>(a);
  auto* x1 = static_cast<const T*>(b);
  auto* x2 = static_cast<const T*>(c);
  TVARANT_LOOP
  for (int64_t i = 0; i < n; ++i) y[i] = sel(x0[i] != 0, x1[i], x2[i]);
}

template <typename T>
constexpr bool RunsOnF() {
  return kIsFloat<T>;
}
template <typename T>
constexpr bool RunsOnI() {
  return !kIsFloat<T>;
}
template <typename T>
constexpr bool RunsOnN() {
  return true;
}

template <typename T, typename E, int kArity>
constexpr OpLoop LoopFor() {
  if constexpr (kArity == 1) {
    return Loop1<T, E>;
  } else if constexpr (kArity == 2) {
    return Loop2<T, E>;
  } else if constexpr (kArity == 3) {
    return Loop3<T, E>;
  } else {
    return nullptr;
  }
}

// The loops of every op that computes in T; ops[kNumPointwiseOps].
template <typename T>
void FillOps(OpLoop* ops, OpLoop* plain_add) {
#define TVARANT_POINTWISE_OP(code, Name, name, arity, types, result, expr, \
                             doc)                                          \
  static_assert(code < kNumPointwiseOps);                                  \
  if constexpr (RunsOn##types<T>()) {                                      \
    ops[code] = LoopFor<T, Name##Expression<T>, arity>();                  \
  }
#include "proto/ops/pointwise_ops.inc"
  auto set = [ops](PointwiseOp op, OpLoop loop) {
    ops[static_cast<int>(op)] = loop;
  };
  set(PointwiseOp::kAdd, AddLoop<T>);
  set(PointwiseOp::kScale, ScaleLoop<T>);
  set(PointwiseOp::kAddcmul, AddcmulLoop<T>);
  if constexpr (kIsFloat<T>) set(PointwiseOp::kAddcdiv, AddcdivLoop<T>);
  set(PointwiseOp::kWhere, WhereLoop<T>);
  set(PointwiseOp::kCast, nullptr);
  *plain_add = PlainAddLoop<T>;
}

}  // namespace tvarant::host::TVARANT_ISA

#endif  // TVARANT_DAEMON_KERNELS_HOST_POINTWISE_OP_LOOPS_H_
