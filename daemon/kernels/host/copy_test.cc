#include "daemon/kernels/host/copy.h"

#include <array>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "daemon/kernels/host/test_util.h"
#include "gtest/gtest.h"

namespace tvarant::host {
namespace {

using Dims = TestTensor::Dims;

ThreadPool& Pool() {
  static ThreadPool* const pool = new ThreadPool(2);
  return *pool;
}

absl::Status Copy(TestTensor& dst, TestTensor& src, uint32_t flags = 0) {
  const Tensor y = dst.tensor(), x = src.tensor();
  HostLaunch launch;
  launch.kernel = Kernel::kCopy;
  launch.flags = flags;
  launch.dst = absl::MakeConstSpan(&y, 1);
  launch.src = absl::MakeConstSpan(&x, 1);
  return RunCopy(launch, Pool());
}

// A conversion as PyTorch on this machine does it: floats to integers of up to
// 32 bits by way of int32, out of range giving its lowest value.
void NaiveConvert(TestTensor& src, int64_t from, TestTensor& dst, int64_t to) {
  const bool from_float = IsFloating(src.dtype());
  if (dst.dtype() == DType::kBool || IsFloating(dst.dtype())) {
    dst.Set(to, src.Get(from));
  } else if (!from_float) {
    dst.SetInt(to, src.GetInt(from));
  } else {
    const double x = std::trunc(src.Get(from));
    if (dst.dtype() == DType::kInt64) {
      const bool fits = x >= -0x1p63 && x < 0x1p63;
      dst.SetInt(to, fits ? static_cast<int64_t>(x) : INT64_MIN);
    } else {
      const bool fits = x >= -0x1p31 && x < 0x1p31;
      dst.SetInt(to, fits ? static_cast<int64_t>(x) : INT32_MIN);
    }
  }
}

void FillValues(TestTensor& x) {
  const double special[] = {
      0,        -0.0,          1,
      -1,       0.5,           -0.25,
      127,      128,           255,
      256,      -129,          32767.5,
      -32769,   65504,         65520,
      1e5,      -3e9,          5e9,
      1e19,     -1e19,         1e39,
      6e-8,     3e-8,          1e-41,
      6.1e-5,   1.00048828125, 1.0014648437,
      INFINITY, -INFINITY,     std::numeric_limits<double>::quiet_NaN()};
  TestRandom random(3);
  const int64_t count = static_cast<int64_t>(std::size(special));
  for (int64_t i = 0; i < x.numel(); ++i) {
    if (IsFloating(x.dtype())) {
      x.Set(i, i < count ? special[i] : random.Real(-500, 500));
    } else {
      x.SetInt(i, i % 5 ? random.Int(-300, 300)
                        : static_cast<int64_t>(random.Next())
                              << random.Int(0, 31));
    }
  }
}

TEST(CopyTest, EveryPairOfDTypes) {
  ForEachIsa([] {
    for (DType from : kComputeDTypes) {
      for (DType to : kComputeDTypes) {
        SCOPED_TRACE(std::string(NameOf(from)) + " to " + NameOf(to));
        for (const Dims& strides : {Dims{31, 1}, Dims{1, 5}, Dims{70, 2}}) {
          TestTensor x(from, {5, 31}, strides, 1), y(to, {5, 31}, {1, 6}, 2);
          TestTensor dense(to, {5, 31}), want(to, {5, 31});
          FillValues(x);
          ASSERT_TRUE(Copy(y, x).ok());
          ASSERT_TRUE(Copy(dense, x).ok());
          for (int64_t i = 0; i < x.numel(); ++i) {
            NaiveConvert(x, i, want, i);
            ASSERT_TRUE(Near(y.Get(i), want.Get(i), 0, 0)) << x.Get(i);
            ASSERT_TRUE(Near(dense.Get(i), want.Get(i), 0, 0)) << x.Get(i);
            if (!std::isnan(want.Get(i))) {
              ASSERT_EQ(std::signbit(y.Get(i)), std::signbit(want.Get(i)));
            }
          }
          EXPECT_TRUE(y.Untouched());
        }
      }
    }
  });
}

TEST(CopyTest, EveryHalfBitPattern) {
  ForEachIsa([] {
    for (DType dtype : {DType::kFloat16, DType::kBFloat16}) {
      TestTensor x(dtype, {65536}), y(DType::kFloat32, {65536});
      TestTensor back(dtype, {65536});
      for (int i = 0; i < 65536; ++i) {
        x.SetRaw(i, static_cast<uint16_t>(i));
      }
      ASSERT_TRUE(Copy(y, x).ok());
      ASSERT_TRUE(Copy(back, y).ok());
      for (int i = 0; i < 65536; ++i) {
        ASSERT_TRUE(Near(y.Get(i), x.Get(i), 0, 0)) << i;
        if (!std::isnan(x.Get(i))) {
          ASSERT_EQ(back.Raw<uint16_t>(i), i);
        } else {
          ASSERT_TRUE(std::isnan(back.Get(i)));
        }
      }
    }
  });
}

// Around the middle of every pair of neighbouring half values.
TEST(CopyTest, HalfRoundingTies) {
  ForEachIsa([] {
    for (DType dtype : {DType::kFloat16, DType::kBFloat16}) {
      const int64_t n = 3 * 0x7F00;
      TestTensor x(DType::kFloat32, {n}), y(dtype, {n}), want(dtype, {n});
      TestTensor bits(dtype, {2});
      for (int64_t i = 0; i < n / 3; ++i) {
        bits.SetRaw(0, static_cast<uint16_t>(i));
        bits.SetRaw(1, static_cast<uint16_t>(i + 1));
        const float middle =
            static_cast<float>((bits.Get(0) + bits.Get(1)) / 2);
        x.Set(3 * i, std::nextafterf(middle, 0));
        x.Set(3 * i + 1, middle);
        x.Set(3 * i + 2, std::nextafterf(middle, INFINITY));
      }
      ASSERT_TRUE(Copy(y, x).ok());
      for (int64_t i = 0; i < n; ++i) {
        want.Set(i, x.Get(i));
        ASSERT_TRUE(Near(y.Get(i), want.Get(i), 0, 0)) << x.Get(i);
      }
    }
  });
}

TEST(CopyTest, BitsOfEverySize) {
  const DType dtypes[] = {DType::kUInt8,  DType::kUInt16,    DType::kUInt32,
                          DType::kUInt64, DType::kComplex64, DType::kComplex128,
                          DType::kFloat16};
  const std::vector<std::array<Dims, 3>> cases = {
      {Dims{37, 53}, Dims{53, 1}, Dims{1, 37}},  // a transpose
      {Dims{37, 53}, Dims{1, 37}, Dims{53, 1}},  // the other way round
      {Dims{128, 192}, Dims{192, 1}, Dims{1, 128}},
      {Dims{3, 21, 33}, Dims{700, 33, 1}, Dims{700, 1, 21}},
      {Dims{21, 3, 33}, Dims{99, 33, 1}, Dims{1, 21, 63}},
      {Dims{8, 9}, Dims{9, 1}, Dims{0, 1}},
      {Dims{8, 9}, Dims{9, 1}, Dims{3, 0}},
      {Dims{8, 9}, Dims{20, 2}, Dims{40, 3}},
      {Dims{8, 900}, Dims{1000, 1}, Dims{901, 1}},
      {Dims{}, Dims{}, Dims{}},
      {Dims{4, 0}, Dims{1, 1}, Dims{1, 1}},
      {Dims{100001}, Dims{1}, Dims{1}},
      {Dims{100001}, Dims{1}, Dims{3}},
  };
  ForEachIsa([&] {
    for (DType dtype : dtypes) {
      const int64_t bytes = static_cast<int64_t>(SizeOf(dtype));
      for (const auto& [sizes, to, from] : cases) {
        TestTensor y(dtype, sizes, to, 2), x(dtype, sizes, from, 1);
        TestRandom random(9);
        for (int64_t i = 0; i < x.numel(); ++i) {
          for (int64_t b = 0; b < bytes; ++b) {
            x.At(i)[b] = static_cast<char>(random.Next());
          }
        }
        ASSERT_TRUE(Copy(y, x).ok());
        for (int64_t i = 0; i < x.numel(); ++i) {
          ASSERT_EQ(std::memcmp(y.At(i), x.At(i), bytes), 0)
              << NameOf(dtype) << " element " << i;
        }
        EXPECT_TRUE(y.Untouched());
      }
    }
  });
}

TEST(CopyTest, Complex) {
  using C64 = std::complex<float>;
  using C128 = std::complex<double>;
  TestTensor x(DType::kComplex64, {3, 4}, {1, 3}),
      wide(DType::kComplex128, {3, 4});
  TestTensor same(DType::kComplex64, {3, 4}), real(DType::kFloat16, {3, 4});
  for (int64_t i = 0; i < 12; ++i) {
    x.SetRaw(i, C64(static_cast<float>(i) + 0.5f, -static_cast<float>(i)));
  }
  for (uint32_t flags : {0u, 1u, 2u, 3u}) {
    ASSERT_TRUE(Copy(wide, x, flags).ok());
    ASSERT_TRUE(Copy(same, x, flags).ok());
    ASSERT_TRUE(Copy(real, x, flags).ok());
    for (int64_t i = 0; i < 12; ++i) {
      C64 want = x.Raw<C64>(i);
      if (flags & kConjugate) want = std::conj(want);
      if (flags & kNegate) want = -want;
      EXPECT_EQ(same.Raw<C64>(i), want);
      EXPECT_EQ(wide.Raw<C128>(i), C128(want));
      EXPECT_EQ(real.Get(i), want.real());
    }
  }
  // Real to complex, and a negated real.
  TestTensor integers(DType::kInt16, {3, 4});
  for (int64_t i = 0; i < 12; ++i) integers.Set(i, i - 6);
  ASSERT_TRUE(Copy(wide, integers).ok());
  TestTensor negated(DType::kInt16, {3, 4});
  ASSERT_TRUE(Copy(negated, integers, kNegate).ok());
  for (int64_t i = 0; i < 12; ++i) {
    EXPECT_EQ(wide.Raw<C128>(i), C128(static_cast<double>(i - 6), 0));
    EXPECT_EQ(negated.Get(i), 6 - i);
  }
}

TEST(CopyTest, UnsignedTypesDoNotConvert) {
  TestTensor x(DType::kUInt32, {3}), y(DType::kFloat32, {3});
  EXPECT_EQ(Copy(y, x).code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace tvarant::host
