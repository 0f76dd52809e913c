#include "tests/conformance/tensor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tvarant::conformance {
namespace {

// Room around every tensor, in bytes; a multiple of every element size.
constexpr int64_t kMargin = 64;
constexpr char kPattern = '\x5b';

// Rounds to a binary format of `digits` significant bits.
Real RoundToFormat(Real value, int digits, int min_exponent, int max_exponent) {
  if (value == 0 || !std::isfinite(value)) return value;
  int exponent;
  std::frexp(value, &exponent);
  const int unit = std::max(exponent - digits, min_exponent - digits);
  const Real rounded =
      std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
  if (std::fabs(rounded) >= std::ldexp(Real{1}, max_exponent)) {
    return std::copysign(std::numeric_limits<Real>::infinity(), value);
  }
  return rounded;
}

Real RoundToHalf(Real value) { return RoundToFormat(value, 11, -13, 16); }
Real RoundToBFloat16(Real value) { return RoundToFormat(value, 8, -125, 128); }

// Two's complement wrapping to `bits`.
uint64_t Wrap(Real value) {
  if (!std::isfinite(value)) return 0;
  const Real whole = std::trunc(value);
  if (whole >= 0) return static_cast<uint64_t>(whole);
  return -static_cast<uint64_t>(-whole);
}

uint16_t HalfBits(Real value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7e00;
  const Real magnitude = std::fabs(RoundToHalf(value));
  if (std::isinf(magnitude)) return sign | 0x7c00;
  if (magnitude == 0) return sign;
  int exponent;
  std::frexp(magnitude, &exponent);
  if (exponent < -13) {
    return sign | static_cast<uint16_t>(std::ldexp(magnitude, 24));
  }
  const uint16_t mantissa =
      static_cast<uint16_t>(std::ldexp(magnitude, 11 - exponent)) & 0x3ff;
  return sign | static_cast<uint16_t>((exponent + 14) << 10) | mantissa;
}

Real ComputeHalfValue(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 0x3ff;
  Real magnitude;
  if (exponent == 31) {
    magnitude = mantissa == 0 ? std::numeric_limits<Real>::infinity()
                              : std::numeric_limits<Real>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(Real(mantissa), -24);
  } else {
    magnitude = std::ldexp(Real(mantissa + 1024), exponent - 25);
  }
  return bits & 0x8000 ? -magnitude : magnitude;
}

Real HalfValue(uint16_t bits) {
  static const std::vector<Real>* const kValues = [] {
    auto* values = new std::vector<Real>;
    for (int i = 0; i <= UINT16_MAX; ++i) {
      values->push_back(ComputeHalfValue(static_cast<uint16_t>(i)));
    }
    return values;
  }();
  return (*kValues)[bits];
}

template <typename T>
T Load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

template <typename T>
void Store(char* at, T value) {
  std::memcpy(at, &value, sizeof(value));
}

Real LoadValue(DType dtype, const char* at) {
  switch (dtype) {
    case DType::kBool:
      return *at != 0 ? 1 : 0;
    case DType::kUInt8:
      return Load<uint8_t>(at);
    case DType::kInt8:
      return Load<int8_t>(at);
    case DType::kInt16:
      return Load<int16_t>(at);
    case DType::kInt32:
      return Load<int32_t>(at);
    case DType::kInt64:
      return Load<int64_t>(at);
    case DType::kUInt16:
      return Load<uint16_t>(at);
    case DType::kUInt32:
      return Load<uint32_t>(at);
    case DType::kUInt64:
      return Load<uint64_t>(at);
    case DType::kFloat16:
      return HalfValue(Load<uint16_t>(at));
    case DType::kBFloat16:
      return std::bit_cast<float>(uint32_t{Load<uint16_t>(at)} << 16);
    case DType::kFloat32:
    case DType::kComplex64:
      return Load<float>(at);
    case DType::kFloat64:
    case DType::kComplex128:
      return Load<double>(at);
    case DType::kInvalid:
      break;
  }
  return 0;
}

void StoreValue(DType dtype, Real value, char* at) {
  switch (dtype) {
    case DType::kBool:
      return Store<uint8_t>(at, value != 0);
    case DType::kUInt8:
    case DType::kInt8:
      return Store(at, static_cast<uint8_t>(Wrap(value)));
    case DType::kInt16:
    case DType::kUInt16:
      return Store(at, static_cast<uint16_t>(Wrap(value)));
    case DType::kInt32:
    case DType::kUInt32:
      return Store(at, static_cast<uint32_t>(Wrap(value)));
    case DType::kInt64:
    case DType::kUInt64:
      return Store(at, Wrap(value));
    case DType::kFloat16:
      return Store(at, HalfBits(value));
    case DType::kBFloat16:
      return Store(
          at, static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(
                                        RoundToBFloat16(value))) >>
                                    16));
    case DType::kFloat32:
    case DType::kComplex64:
      return Store(at, static_cast<float>(value));
    case DType::kFloat64:
    case DType::kComplex128:
      return Store(at, static_cast<double>(value));
    case DType::kInvalid:
      break;
  }
}

Dims StridesOf(const Dims& sizes, Layout layout) {
  const size_t rank = sizes.size();
  Dims strides(rank);
  int64_t stride = layout == Layout::kGaps ? 2 : 1;
  for (size_t k = 0; k < rank; ++k) {
    const size_t dim = layout == Layout::kTransposed ? k : rank - 1 - k;
    strides[dim] = stride;
    stride *= std::max<int64_t>(sizes[dim], 1);
    if (layout == Layout::kGaps) stride += 3;
  }
  if (layout == Layout::kBroadcast && rank > 0) strides[0] = 0;
  if (layout == Layout::kRepeated) std::fill(strides.begin(), strides.end(), 0);
  return strides;
}

Real SmallestNormal(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return std::ldexp(Real{1}, -24);  // computed in float32: no flushing
    case DType::kBFloat16:
    case DType::kFloat32:
      return std::numeric_limits<float>::min();
    default:
      return std::numeric_limits<double>::min();
  }
}

bool IsClose(DType dtype, Real got, Real want, Tolerance tolerance) {
  if (std::isnan(want)) return std::isnan(got);
  const Real epsilon = EpsilonOf(dtype);
  if (epsilon == 0) return got == RoundTo(dtype, want);
  const Real rounded = RoundTo(dtype, want);
  if (got == rounded) return true;
  const Real relative = tolerance.ulps * epsilon;
  if (std::isinf(rounded) || std::isinf(got)) {
    // A finite value that only just doesn't fit may go either way.
    if (std::isnan(got) || std::isinf(want)) return false;
    const Real closer = want * (1 - relative), further = want * (1 + relative);
    return std::isinf(got)
               ? std::isinf(RoundTo(dtype, further)) &&
                     std::signbit(got) == std::signbit(want)
               : std::isfinite(RoundTo(dtype, closer)) &&
                     std::fabs(got) >= std::fabs(want) * (1 - 2 * relative);
  }
  return std::fabs(got - want) <= relative * std::fabs(want) +
                                      tolerance.absolute * epsilon +
                                      SmallestNormal(dtype);
}

}  // namespace

std::string LayoutName(Layout layout) {
  switch (layout) {
    case Layout::kContiguous:
      return "contiguous";
    case Layout::kOffset:
      return "offset";
    case Layout::kTransposed:
      return "transposed";
    case Layout::kGaps:
      return "gaps";
    case Layout::kBroadcast:
      return "broadcast";
    case Layout::kRepeated:
      return "repeated";
  }
  return "";
}

Real RoundTo(DType dtype, Real value) {
  alignas(16) char bytes[16] = {};
  StoreValue(dtype, value, bytes);
  return LoadValue(dtype, bytes);
}

Real EpsilonOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return std::ldexp(Real{1}, -10);
    case DType::kBFloat16:
      return std::ldexp(Real{1}, -7);
    case DType::kFloat32:
    case DType::kComplex64:
      return std::ldexp(Real{1}, -23);
    case DType::kFloat64:
    case DType::kComplex128:
      return std::ldexp(Real{1}, -52);
    default:
      return 0;
  }
}

Tensor::Tensor(DType dtype, Dims sizes, Layout layout)
    : dtype_(dtype),
      sizes_(std::move(sizes)),
      strides_(StridesOf(sizes_, layout)),
      numel_(1) {
  const int64_t element = static_cast<int64_t>(SizeOf(dtype_));
  int64_t last = 0;
  for (size_t i = 0; i < sizes_.size(); ++i) {
    numel_ *= sizes_[i];
    last += std::max<int64_t>(sizes_[i] - 1, 0) * strides_[i];
  }
  offset_bytes_ = kMargin + (layout == Layout::kOffset ? element : 0);
  bytes_.assign(offset_bytes_ + (last + 1) * element + kMargin, kPattern);
}

int64_t Tensor::PositionOf(int64_t index) const {
  int64_t position = 0;
  for (size_t i = sizes_.size(); i-- > 0;) {
    position += index % sizes_[i] * strides_[i];
    index /= sizes_[i];
  }
  return static_cast<int64_t>(offset_bytes_) +
         position * static_cast<int64_t>(SizeOf(dtype_));
}

Real Tensor::Get(int64_t index) const {
  return LoadValue(dtype_, bytes_.data() + PositionOf(index));
}

Real Tensor::GetImag(int64_t index) const {
  if (!IsComplex(dtype_)) return 0;
  return LoadValue(dtype_,
                   bytes_.data() + PositionOf(index) + SizeOf(dtype_) / 2);
}

void Tensor::Set(int64_t index, Real value, Real imag) {
  char* at = bytes_.data() + PositionOf(index);
  StoreValue(dtype_, value, at);
  if (IsComplex(dtype_)) StoreValue(dtype_, imag, at + SizeOf(dtype_) / 2);
}

std::vector<Real> Tensor::Values() const {
  std::vector<Real> values;
  for (int64_t i = 0; i < numel_; ++i) values.push_back(Get(i));
  return values;
}

int64_t Tensor::IndexOf(const Dims& at) const {
  int64_t index = 0;
  for (size_t i = 0; i < sizes_.size(); ++i) index = index * sizes_[i] + at[i];
  return index;
}

Dims Tensor::CoordinatesOf(int64_t index) const {
  Dims at(sizes_.size());
  for (size_t i = sizes_.size(); i-- > 0;) {
    at[i] = index % sizes_[i];
    index /= sizes_[i];
  }
  return at;
}

Tensor& Tensor::Fill(const std::function<Real(int64_t)>& value) {
  for (int64_t i = 0; i < numel_; ++i) Set(i, value(i));
  return *this;
}

Tensor& Tensor::FillRandom(std::mt19937_64& random, Real low, Real high) {
  const bool whole = EpsilonOf(dtype_) == 0;
  std::uniform_real_distribution<double> uniform(static_cast<double>(low),
                                                 static_cast<double>(high));
  return Fill([&](int64_t) {
    const Real value = uniform(random);
    return whole ? std::nearbyint(value) : value;
  });
}

Tensor& Tensor::FillFrom(std::mt19937_64& random,
                         const std::vector<Real>& pool) {
  return Fill([&](int64_t) { return pool[random() % pool.size()]; });
}

absl::Status Tensor::CheckGaps(const std::vector<char>& before) const {
  std::vector<bool> is_element(bytes_.size(), false);
  for (int64_t i = 0; i < numel_; ++i) {
    const int64_t at = PositionOf(i);
    std::fill_n(is_element.begin() + at, SizeOf(dtype_), true);
  }
  for (size_t i = 0; i < bytes_.size(); ++i) {
    if (!is_element[i] && bytes_[i] != before[i]) {
      return absl::InternalError(absl::StrCat(Describe(), ": wrote byte ", i,
                                              ", which belongs to no element"));
    }
  }
  return absl::OkStatus();
}

std::string Tensor::Describe() const {
  std::string text = absl::StrCat(NameOf(dtype_), "[");
  for (size_t i = 0; i < sizes_.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ",", sizes_[i]);
  }
  absl::StrAppend(&text, "]/(");
  for (size_t i = 0; i < strides_.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ",", strides_[i]);
  }
  return text + ")";
}

absl::Status ExpectValues(const std::string& what, const Tensor& got,
                          const std::function<Real(int64_t)>& want,
                          Tolerance tolerance) {
  for (int64_t i = 0; i < got.numel(); ++i) {
    const Real value = got.Get(i), expected = want(i);
    if (!IsClose(got.dtype(), value, expected, tolerance)) {
      return absl::InternalError(absl::StrFormat(
          "%s: %s element %d is %.20g, want %.20g", what, got.Describe(), i,
          static_cast<double>(value), static_cast<double>(expected)));
    }
  }
  return absl::OkStatus();
}

}  // namespace tvarant::conformance
