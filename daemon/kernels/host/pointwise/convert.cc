// Loads, stores and conversions between registers and tensors; the table.

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include <cstdint>

#include "daemon/kernels/host/half.h"
#include "daemon/kernels/host/pointwise/op_loops.h"
#include "daemon/kernels/host/pointwise/op_table.h"

namespace tvarant::host::TVARANT_ISA {

void FillOpsF32(OpLoop* ops, OpLoop* plain_add);
void FillOpsF64(OpLoop* ops, OpLoop* plain_add);
void FillOpsI32(OpLoop* ops, OpLoop* plain_add);
void FillOpsI64(OpLoop* ops, OpLoop* plain_add);

namespace {

// A bool in memory: any byte but 0 is true.
struct Bool {
  uint8_t byte;
};

// Element of a tensor -> element of a register.
template <typename R, typename S>
TVARANT_ELEMENT R Widen(S x) {
  return static_cast<R>(x);
}
template <>
TVARANT_ELEMENT int32_t Widen<int32_t, Bool>(Bool x) {
  return x.byte != 0;
}
template <>
TVARANT_ELEMENT float Widen<float, Half>(Half x) {
  return ToFloat(x);
}
template <>
TVARANT_ELEMENT float Widen<float, BFloat16>(BFloat16 x) {
  return ToFloat(x);
}

// Element of a register -> element of a tensor.
template <typename S, typename R>
TVARANT_ELEMENT S Narrow(R x) {
  return static_cast<S>(x);
}
template <>
TVARANT_ELEMENT Bool Narrow<Bool, int32_t>(int32_t x) {
  return Bool{static_cast<uint8_t>(x != 0)};
}
template <>
TVARANT_ELEMENT Half Narrow<Half, float>(float x) {
  return FromFloat<Half>(x);
}
template <>
TVARANT_ELEMENT BFloat16 Narrow<BFloat16, float>(float x) {
  return FromFloat<BFloat16>(x);
}

// Elements next to each other.
template <typename R, typename S>
TVARANT_ELEMENT void WidenRow(R* dst, const S* src, int64_t n) {
  TVARANT_LOOP
  for (int64_t i = 0; i < n; ++i) dst[i] = Widen<R, S>(src[i]);
}
template <typename S, typename R>
TVARANT_ELEMENT void NarrowRow(S* dst, const R* src, int64_t n) {
  TVARANT_LOOP
  for (int64_t i = 0; i < n; ++i) dst[i] = Narrow<S, R>(src[i]);
}

#if defined(__AVX2__)
// The machine converts float16 by itself.
template <>
TVARANT_ELEMENT void WidenRow<float, Half>(float* dst, const Half* src,
                                           int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i x =
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + i));
    _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(x));
  }
  for (; i < n; ++i) dst[i] = ToFloat(src[i]);
}
template <>
TVARANT_ELEMENT void NarrowRow<Half, float>(Half* dst, const float* src,
                                            int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i y =
        _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + i), y);
  }
  for (; i < n; ++i) dst[i] = FromFloat<Half>(src[i]);
}
#endif

template <typename R, typename S>
void Load(void* dst, const char* src, int64_t stride, int64_t n) {
  auto* y = static_cast<R*>(dst);
  if (stride == static_cast<int64_t>(sizeof(S))) {
    WidenRow(y, reinterpret_cast<const S*>(src), n);
  } else if (stride == 0) {
    const R x = Widen<R, S>(*reinterpret_cast<const S*>(src));
    for (int64_t i = 0; i < n; ++i) y[i] = x;
  } else {
    for (int64_t i = 0; i < n; ++i) {
      y[i] = Widen<R, S>(*reinterpret_cast<const S*>(src + i * stride));
    }
  }
}

template <typename S, typename R>
void Store(char* dst, int64_t stride, const void* src, int64_t n) {
  auto* x = static_cast<const R*>(src);
  if (stride == static_cast<int64_t>(sizeof(S))) {
    NarrowRow(reinterpret_cast<S*>(dst), x, n);
  } else {
    for (int64_t i = 0; i < n; ++i) {
      *reinterpret_cast<S*>(dst + i * stride) = Narrow<S, R>(x[i]);
    }
  }
}

// As C where the value fits; the lowest integer where it does not, as the
// machine's own conversion gives.
template <typename To, typename From>
TVARANT_ELEMENT To CastElement(From x) {
  if constexpr (kIsFloat<From> && !kIsFloat<To>) {
    constexpr To kLowest = static_cast<To>(uint64_t{1} << (sizeof(To) * 8 - 1));
    constexpr From kLimit = -static_cast<From>(kLowest);
    const bool fits = (x >= -kLimit) & (x < kLimit);
    const To cast = static_cast<To>(sel(fits, x, From(0)));
    return sel(fits, cast, kLowest);
  } else {
    return static_cast<To>(x);
  }
}

template <typename To, typename From>
void Cast(void* dst, const void* a, const void*, const void*, int64_t n,
          uint64_t) {
  auto* y = static_cast<To*>(dst);
  auto* x = static_cast<const From*>(a);
  TVARANT_LOOP
  for (int64_t i = 0; i < n; ++i) y[i] = CastElement<To>(x[i]);
}

template <typename From>
void ToBool(void* dst, const void* a, const void*, const void*, int64_t n,
            uint64_t) {
  auto* y = static_cast<int32_t*>(dst);
  auto* x = static_cast<const From*>(a);
  TVARANT_LOOP
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] != From(0);
}

template <typename S, typename R>
void Round(void* dst, const void* a, const void*, const void*, int64_t n,
           uint64_t) {
  auto* y = static_cast<R*>(dst);
  auto* x = static_cast<const R*>(a);
  TVARANT_LOOP
  for (int64_t i = 0; i < n; ++i) y[i] = Widen<R, S>(Narrow<S, R>(x[i]));
}

template <typename T>
bool AnyZero(const void* src, int64_t n) {
  auto* x = static_cast<const T*>(src);
  T any = 0;
  for (int64_t i = 0; i < n; ++i) any |= x[i] == T(0) ? T(1) : T(0);
  return any != 0;
}

template <typename S, typename R>
void AddDType(OpTable* table, DType dtype, bool rounds) {
  const int i = static_cast<int>(dtype);
  table->load[i] = Load<R, S>;
  table->store[i] = Store<S, R>;
  if (rounds) table->round[i] = Round<S, R>;
}

template <typename From>
void AddClass(OpTable* table, ComputeClass from) {
  OpLoop* cast = table->cast[ClassIndex(from)];
  cast[ClassIndex(ComputeClass::kI32)] = Cast<int32_t, From>;
  cast[ClassIndex(ComputeClass::kI64)] = Cast<int64_t, From>;
  cast[ClassIndex(ComputeClass::kF32)] = Cast<float, From>;
  cast[ClassIndex(ComputeClass::kF64)] = Cast<double, From>;
  table->to_bool[ClassIndex(from)] = ToBool<From>;
}

OpTable MakeTable() {
  OpTable table;
  AddDType<Bool, int32_t>(&table, DType::kBool, true);
  AddDType<uint8_t, int32_t>(&table, DType::kUInt8, true);
  AddDType<int8_t, int32_t>(&table, DType::kInt8, true);
  AddDType<int16_t, int32_t>(&table, DType::kInt16, true);
  AddDType<int32_t, int32_t>(&table, DType::kInt32, false);
  AddDType<int64_t, int64_t>(&table, DType::kInt64, false);
  AddDType<Half, float>(&table, DType::kFloat16, true);
  AddDType<BFloat16, float>(&table, DType::kBFloat16, true);
  AddDType<float, float>(&table, DType::kFloat32, false);
  AddDType<double, double>(&table, DType::kFloat64, false);
  AddClass<int32_t>(&table, ComputeClass::kI32);
  AddClass<int64_t>(&table, ComputeClass::kI64);
  AddClass<float>(&table, ComputeClass::kF32);
  AddClass<double>(&table, ComputeClass::kF64);
  const auto fill = [&table](ComputeClass compute_class,
                             void (*add)(OpLoop*, OpLoop*)) {
    const int i = ClassIndex(compute_class);
    add(table.ops[i], &table.plain_add[i]);
  };
  fill(ComputeClass::kI32, FillOpsI32);
  fill(ComputeClass::kI64, FillOpsI64);
  fill(ComputeClass::kF32, FillOpsF32);
  fill(ComputeClass::kF64, FillOpsF64);
  table.any_zero[ClassIndex(ComputeClass::kI32)] = AnyZero<int32_t>;
  table.any_zero[ClassIndex(ComputeClass::kI64)] = AnyZero<int64_t>;
  return table;
}

}  // namespace

const OpTable& GetOpTableOfIsa() {
  static const OpTable table = MakeTable();
  return table;
}

}  // namespace tvarant::host::TVARANT_ISA
