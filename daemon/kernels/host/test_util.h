// Tensors for kernel tests: any dtype, sizes, strides and offset, read and
// written one element at a time by conversions of their own.
//
// Example:
//   TestTensor x(DType::kFloat16, {2, 3}, {1, 2});   // strides in elements
//   x.Set(4, 1.5);                                   // row-major index
//   HostLaunch launch; ... x.tensor() ...
//   EXPECT_EQ(x.Get(4), 1.5);

#ifndef TVARANT_DAEMON_KERNELS_HOST_TEST_UTIL_H_
#define TVARANT_DAEMON_KERNELS_HOST_TEST_UTIL_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/isa.h"
#include "gtest/gtest.h"

namespace tvarant::host {

// float16 and bfloat16 by arithmetic, not by bits.
inline double HalfValue(uint16_t bits, int fraction_bits, int bias) {
  const int exponent_bits = 15 - fraction_bits;
  const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = bits & 0x8000 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction == 0 ? sign * INFINITY
                         : std::numeric_limits<double>::quiet_NaN();
  }
  const double unit = std::ldexp(1.0, -fraction_bits);
  return exponent == 0
             ? sign * std::ldexp(fraction * unit, 1 - bias)
             : sign * std::ldexp(1.0 + fraction * unit, exponent - bias);
}

// The nearest value of a half type, ties to even, by rounding the scaled
// significand.
inline uint16_t HalfBits(float value, int fraction_bits, int bias) {
  const int exponent_bits = 15 - fraction_bits;
  const uint16_t infinity =
      static_cast<uint16_t>(((1 << exponent_bits) - 1) << fraction_bits);
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | infinity | (1 << (fraction_bits - 1));
  const double magnitude = std::fabs(static_cast<double>(value));
  if (std::isinf(magnitude)) return sign | infinity;
  if (magnitude == 0) return sign;
  const int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  // Units of the last place, in the default mode: ties to even.
  const double units =
      std::nearbyint(std::ldexp(magnitude, fraction_bits - exponent));
  const int64_t bits =
      static_cast<int64_t>(units) +
      (static_cast<int64_t>(exponent + bias - 1) << fraction_bits);
  return static_cast<uint16_t>(sign | std::min<int64_t>(bits, infinity));
}

class TestTensor {
 public:
  using Dims = std::vector<int64_t>;

  TestTensor(DType dtype, Dims sizes)
      : TestTensor(dtype, sizes, Dense(sizes)) {}
  TestTensor(DType dtype, Dims sizes, Dims strides, int64_t offset = 0)
      : dtype_(dtype),
        sizes_(std::move(sizes)),
        strides_(std::move(strides)),
        offset_(offset) {
    int64_t last = offset;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      numel_ *= sizes_[i];
      last += (sizes_[i] > 0 ? sizes_[i] - 1 : 0) * strides_[i];
    }
    // Bytes that nobody should touch hold a pattern; Untouched() looks.
    bytes_.assign((last + 1) * SizeOf(dtype) + 64, kPattern);
  }

  static Dims Dense(const Dims& sizes) {
    Dims strides(sizes.size());
    int64_t stride = 1;
    for (size_t i = sizes.size(); i-- > 0;) {
      strides[i] = stride;
      stride *= std::max<int64_t>(sizes[i], 1);
    }
    return strides;
  }

  // Borrows this object.
  Tensor tensor() const {
    Tensor t;
    t.data = const_cast<char*>(bytes_.data()) +
             offset_ * static_cast<int64_t>(SizeOf(dtype_));
    t.dtype = dtype_;
    t.rank = static_cast<int>(sizes_.size());
    t.sizes = sizes_.data();
    t.strides = strides_.data();
    return t;
  }

  int64_t numel() const { return numel_; }
  DType dtype() const { return dtype_; }
  const Dims& sizes() const { return sizes_; }

  char* At(int64_t index) {
    int64_t at = offset_;
    for (size_t i = sizes_.size(); i-- > 0;) {
      at += index % sizes_[i] * strides_[i];
      index /= sizes_[i];
    }
    return bytes_.data() + at * static_cast<int64_t>(SizeOf(dtype_));
  }

  template <typename T>
  T Raw(int64_t index) {
    T value;
    std::memcpy(&value, At(index), sizeof(T));
    return value;
  }
  template <typename T>
  void SetRaw(int64_t index, T value) {
    std::memcpy(At(index), &value, sizeof(T));
  }

  double Get(int64_t index) {
    switch (dtype_) {
      case DType::kBool:
        return Raw<uint8_t>(index) != 0;
      case DType::kUInt8:
        return Raw<uint8_t>(index);
      case DType::kInt8:
        return Raw<int8_t>(index);
      case DType::kInt16:
        return Raw<int16_t>(index);
      case DType::kInt32:
        return Raw<int32_t>(index);
      case DType::kInt64:
        return static_cast<double>(Raw<int64_t>(index));
      case DType::kFloat16:
        return HalfValue(Raw<uint16_t>(index), 10, 15);
      case DType::kBFloat16:
        return HalfValue(Raw<uint16_t>(index), 7, 127);
      case DType::kFloat32:
        return Raw<float>(index);
      case DType::kFloat64:
        return Raw<double>(index);
      default:
        ADD_FAILURE() << "no such value";
        return 0;
    }
  }
  int64_t GetInt(int64_t index) {
    return dtype_ == DType::kInt64 ? Raw<int64_t>(index)
                                   : static_cast<int64_t>(Get(index));
  }

  // Rounds or wraps.
  void Set(int64_t index, double value) {
    switch (dtype_) {
      case DType::kFloat16:
        return SetRaw(index, HalfBits(static_cast<float>(value), 10, 15));
      case DType::kBFloat16:
        return SetRaw(index, HalfBits(static_cast<float>(value), 7, 127));
      case DType::kFloat32:
        return SetRaw(index, static_cast<float>(value));
      case DType::kFloat64:
        return SetRaw(index, value);
      case DType::kBool:
        return SetRaw<uint8_t>(index, value != 0);
      default:
        return SetInt(index, static_cast<int64_t>(value));
    }
  }
  void SetInt(int64_t index, int64_t value) {
    switch (dtype_) {
      case DType::kBool:
        return SetRaw<uint8_t>(index, value != 0);
      case DType::kUInt8:
      case DType::kInt8:
        return SetRaw(index, static_cast<uint8_t>(value));
      case DType::kInt16:
        return SetRaw(index, static_cast<uint16_t>(value));
      case DType::kInt32:
        return SetRaw(index, static_cast<uint32_t>(value));
      case DType::kInt64:
        return SetRaw(index, value);
      default:
        return Set(index, static_cast<double>(value));
    }
  }

  // Whether the bytes between and around the elements are as they were.
  bool Untouched() {
    std::vector<char> copy = bytes_;
    for (int64_t i = 0; i < numel_; ++i) {
      std::memset(copy.data() + (At(i) - bytes_.data()), kPattern,
                  SizeOf(dtype_));
    }
    return copy == std::vector<char>(copy.size(), kPattern);
  }

 private:
  static constexpr char kPattern = 0x5A;
  DType dtype_;
  Dims sizes_;
  Dims strides_;
  int64_t offset_ = 0;
  int64_t numel_ = 1;
  std::vector<char> bytes_;
};

// A small generator for test data; the same numbers on every machine.
class TestRandom {
 public:
  explicit TestRandom(uint64_t seed) : state_(seed * 2 + 1) {}
  uint32_t Next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state_ >> 33);
  }
  int64_t Int(int64_t low, int64_t high) {
    return low + Next() % static_cast<uint64_t>(high - low + 1);
  }
  double Real(double low, double high) {
    return low + (high - low) * (Next() / 2147483648.0);
  }

 private:
  uint64_t state_;
};

// Runs body under every instruction set that this CPU has.
template <typename Body>
void ForEachIsa(const Body& body) {
  const Isa before = CurrentIsa();
  for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > BestIsa()) continue;
    SetIsaForTesting(isa);
    SCOPED_TRACE(NameOf(isa));
    body();
  }
  SetIsaForTesting(before);
}

// got against want: equal, both NaN, or within a relative and an absolute
// error.
inline ::testing::AssertionResult Near(double got, double want, double relative,
                                       double absolute) {
  if (std::isnan(want) && std::isnan(got)) return ::testing::AssertionSuccess();
  if (got == want) return ::testing::AssertionSuccess();
  if (std::fabs(got - want) <= relative * std::fabs(want) + absolute) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "got " << got << ", want " << want;
}

inline const DType kComputeDTypes[] = {
    DType::kBool,    DType::kUInt8,  DType::kInt8,    DType::kInt16,
    DType::kInt32,   DType::kInt64,  DType::kFloat16, DType::kBFloat16,
    DType::kFloat32, DType::kFloat64};

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_TEST_UTIL_H_
