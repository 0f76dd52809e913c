#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/test_util.h"
#include "gtest/gtest.h"

namespace tvarant::host {
namespace {

enum class Layout { kRows, kColumns, kSpread };

// [batch, rows, cols] by three indices.
class Matrix {
 public:
  Matrix(DType dtype, TestTensor::Dims sizes, Layout layout = Layout::kRows)
      : sizes_(sizes), tensor_(dtype, sizes, Strides(sizes, layout), 3) {
    Fill([](int64_t) { return 0.0; });
  }
  Matrix(DType dtype, TestTensor::Dims sizes, TestTensor::Dims strides)
      : sizes_(sizes), tensor_(dtype, sizes, strides) {}

  template <typename F>
  Matrix& Fill(F f) {
    for (int64_t i = 0; i < tensor_.numel(); ++i) tensor_.Set(i, f(i));
    return *this;
  }
  Matrix& FillRandom(uint64_t seed, double low = -1, double high = 1) {
    TestRandom random(seed);
    return Fill([&](int64_t) { return random.Real(low, high); });
  }
  double Get(int64_t i, int64_t row, int64_t col) {
    return tensor_.Get((i * sizes_[1] + row) * sizes_[2] + col);
  }
  void Set(int64_t i, int64_t row, int64_t col, double value) {
    tensor_.Set((i * sizes_[1] + row) * sizes_[2] + col, value);
  }
  DType dtype() const { return tensor_.dtype(); }
  Tensor view() const { return tensor_.tensor(); }
  bool Untouched() { return tensor_.Untouched(); }

 private:
  static TestTensor::Dims Strides(const TestTensor::Dims& s, Layout layout) {
    switch (layout) {
      case Layout::kColumns:
        return {s[1] * s[2], 1, s[1]};
      case Layout::kSpread:
        return {2 * s[1] * (s[2] + 1), 2 * (s[2] + 1), 2};
      default:
        return TestTensor::Dense(s);
    }
  }

  TestTensor::Dims sizes_;
  TestTensor tensor_;
};

double ToleranceOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return 1e-3;
    case DType::kBFloat16:
      return 8e-3;
    case DType::kFloat32:
      return 2e-6;
    case DType::kFloat64:
      return 1e-14;
    default:
      return 0;
  }
}

double Activate(Act act, double x) {
  switch (act) {
    case Act::kRelu:
      return x < 0 ? 0 : x;
    case Act::kSilu:
      return x / (1 + std::exp(-x));
    case Act::kGelu:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Act::kGeluTanh:
      return 0.5 * x *
             (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    default:
      return x;
  }
}

struct Options {
  double alpha = 1, beta = 0;
  Act act = Act::kNone;
  int threads = 2;
};

absl::Status Gemm(Matrix& c, Matrix& a, Matrix& b, Matrix* bias,
                  const Options& o) {
  ThreadPool pool(o.threads);
  const Tensor dst[] = {c.view()};
  const Tensor src[] = {a.view(), b.view(),
                        bias != nullptr ? bias->view() : Tensor{}};
  HostLaunch launch;
  launch.kernel = Kernel::kGemm;
  launch.act = o.act;
  launch.alpha = o.alpha;
  launch.beta = o.beta;
  launch.batch = dst[0].sizes[0];
  launch.m = dst[0].sizes[1];
  launch.n = dst[0].sizes[2];
  launch.k = src[0].sizes[2];
  launch.dst = dst;
  launch.src = src;
  return RunGemm(launch, pool);
}

// Compares with a plain triple loop in double.
void ExpectGemm(Matrix& c, Matrix& a, Matrix& b, Matrix* bias,
                const Options& o) {
  ASSERT_TRUE(Gemm(c, a, b, bias, o).ok());
  const Tensor view = c.view();
  const int64_t k = a.view().sizes[2];
  for (int64_t i = 0; i < view.sizes[0]; ++i) {
    for (int64_t m = 0; m < view.sizes[1]; ++m) {
      for (int64_t n = 0; n < view.sizes[2]; ++n) {
        double sum = 0, size = 0;
        for (int64_t p = 0; p < k; ++p) {
          const double product = a.Get(i, m, p) * b.Get(i, p, n);
          sum += product;
          size += std::abs(product);
        }
        double want = o.alpha * sum;
        if (bias != nullptr && o.beta != 0) want += o.beta * bias->Get(i, m, n);
        want = Activate(o.act, want);
        const double tolerance =
            ToleranceOf(c.dtype()) * (1 + std::abs(want)) +
            std::abs(o.alpha) * size *
                (c.dtype() == DType::kFloat64 ? 1e-15 : 1e-6);
        ASSERT_NEAR(c.Get(i, m, n), want, tolerance)
            << NameOf(c.dtype()) << " at " << i << " " << m << " " << n;
      }
    }
  }
  EXPECT_TRUE(c.Untouched());
}

void ShapesAroundTheTile() {
  for (int64_t m : {1, 2, 5, 6, 7, 14, 15}) {
    for (int64_t n : {1, 3, 15, 16, 17, 33}) {
      for (int64_t k : {1, 4, 19}) {
        Matrix a(DType::kFloat32, {1, m, k}), b(DType::kFloat32, {1, k, n});
        Matrix c(DType::kFloat32, {1, m, n});
        a.FillRandom(1), b.FillRandom(2);
        ExpectGemm(c, a, b, nullptr, {});
      }
    }
  }
}

TEST(GemmTest, ShapesAroundTheTile) { ForEachIsa(ShapesAroundTheTile); }

void LayoutsAndDTypes() {
  const Layout layouts[] = {Layout::kRows, Layout::kColumns, Layout::kSpread};
  for (DType dtype :
       {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    for (Layout la : layouts) {
      for (Layout lb : layouts) {
        for (Layout lc : layouts) {
          Matrix a(dtype, {2, 9, 11}, la), b(dtype, {2, 11, 21}, lb);
          Matrix c(dtype, {2, 9, 21}, lc), bias(dtype, {2, 9, 21}, la);
          a.FillRandom(1), b.FillRandom(2), bias.FillRandom(3);
          ExpectGemm(c, a, b, &bias, {.alpha = 0.5, .beta = 2});
        }
      }
    }
  }
}

TEST(GemmTest, LayoutsAndDTypes) { ForEachIsa(LayoutsAndDTypes); }

// Beyond one block of k, of rows and of columns, with several threads.
void Large() {
  for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16}) {
    for (Layout layout : {Layout::kRows, Layout::kColumns}) {
      Matrix a(dtype, {1, 190, 530}), b(dtype, {1, 530, 97}, layout);
      Matrix c(dtype, {1, 190, 97}, layout);
      a.FillRandom(1), b.FillRandom(2);
      ExpectGemm(c, a, b, nullptr, {.threads = 3});
    }
  }
}

TEST(GemmTest, Large) { ForEachIsa(Large); }

void FewRowsAndFewColumns() {
  for (DType dtype :
       {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    for (Layout layout : {Layout::kRows, Layout::kColumns, Layout::kSpread}) {
      for (int64_t few : {1, 2, 3, 4}) {
        Matrix a(dtype, {1, few, 301}), b(dtype, {1, 301, 131}, layout);
        Matrix c(dtype, {1, few, 131}), bias(dtype, {1, few, 131});
        a.FillRandom(1), b.FillRandom(2), bias.FillRandom(3);
        ExpectGemm(c, a, b, &bias, {.beta = 1, .act = Act::kSilu});
        Matrix d(dtype, {1, 131, 301}, layout), e(dtype, {1, 301, few});
        Matrix f(dtype, {1, 131, few}, layout);
        d.FillRandom(4), e.FillRandom(5);
        ExpectGemm(f, d, e, nullptr, {});
      }
    }
  }
}

TEST(GemmTest, FewRowsAndFewColumns) { ForEachIsa(FewRowsAndFewColumns); }

void Activations() {
  for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16}) {
    for (Act act :
         {Act::kNone, Act::kRelu, Act::kSilu, Act::kGelu, Act::kGeluTanh}) {
      Matrix a(dtype, {1, 7, 8}), b(dtype, {1, 8, 19});
      Matrix c(dtype, {1, 7, 19});
      a.FillRandom(1, -2, 2), b.FillRandom(2, -2, 2);
      ExpectGemm(c, a, b, nullptr, {.act = act});
    }
  }
}

TEST(GemmTest, Activations) { ForEachIsa(Activations); }

void BiasBroadcasts() {
  Matrix a(DType::kFloat32, {2, 7, 8}), b(DType::kFloat32, {2, 8, 35});
  a.FillRandom(1), b.FillRandom(2);
  for (const TestTensor::Dims& strides :
       {TestTensor::Dims{0, 0, 1}, {0, 1, 0}, {0, 0, 0}, {1, 0, 0}}) {
    Matrix bias(DType::kFloat32, {2, 7, 35}, strides);
    bias.FillRandom(3);
    Matrix c(DType::kFloat32, {2, 7, 35});
    ExpectGemm(c, a, b, &bias, {.beta = -1.5});
  }
}

TEST(GemmTest, BiasBroadcasts) { ForEachIsa(BiasBroadcasts); }

void SharedOperandsOfABatch() {
  Matrix a(DType::kFloat32, {3, 5, 8});
  Matrix b(DType::kFloat32, {3, 8, 9}, {0, 9, 1}),
      c(DType::kFloat32, {3, 5, 9});
  a.FillRandom(1), b.FillRandom(2);
  ExpectGemm(c, a, b, nullptr, {});
  Matrix d(DType::kFloat32, {3, 5, 8}, {0, 8, 1}),
      e(DType::kFloat32, {3, 8, 9});
  d.FillRandom(3), e.FillRandom(4);
  ExpectGemm(c, d, e, nullptr, {});
}

TEST(GemmTest, SharedOperandsOfABatch) { ForEachIsa(SharedOperandsOfABatch); }

void IntegersWrap() {
  for (DType dtype :
       {DType::kUInt8, DType::kInt8, DType::kInt16, DType::kInt32}) {
    const int bits = 8 * static_cast<int>(SizeOf(dtype));
    const double high = std::ldexp(1, bits - 1) - 1;
    const double low = dtype == DType::kUInt8 ? 0 : -high - 1;
    Matrix a(dtype, {1, 9, 300}), b(dtype, {1, 300, 18});
    Matrix c(dtype, {1, 9, 18}, Layout::kSpread);
    a.FillRandom(1, low, high), b.FillRandom(2, low, high);
    ASSERT_TRUE(Gemm(c, a, b, nullptr, {.act = Act::kRelu}).ok());
    for (int64_t m = 0; m < 9; ++m) {
      for (int64_t n = 0; n < 18; ++n) {
        uint64_t sum = 0;
        for (int64_t p = 0; p < 300; ++p) {
          sum += static_cast<uint64_t>(static_cast<int64_t>(a.Get(0, m, p))) *
                 static_cast<uint64_t>(static_cast<int64_t>(b.Get(0, p, n)));
        }
        const int64_t shift = 64 - bits;
        int64_t want = dtype == DType::kUInt8
                           ? static_cast<int64_t>(sum & 0xFF)
                           : static_cast<int64_t>(sum << shift) >> shift;
        if (want < 0) want = 0;
        ASSERT_EQ(c.Get(0, m, n), static_cast<double>(want)) << NameOf(dtype);
      }
    }
  }
}

TEST(GemmTest, IntegersWrap) { ForEachIsa(IntegersWrap); }

void Int64WithAlphaAndBias() {
  Matrix a(DType::kInt64, {1, 3, 5}), b(DType::kInt64, {1, 5, 11});
  Matrix c(DType::kInt64, {1, 3, 11}), bias(DType::kInt64, {1, 3, 11});
  a.FillRandom(1, -1e5, 1e5), b.FillRandom(2, -1e5, 1e5);
  bias.FillRandom(3, -100, 100);
  ExpectGemm(c, a, b, &bias, {.alpha = 3, .beta = -2});
}

TEST(GemmTest, Int64WithAlphaAndBias) { ForEachIsa(Int64WithAlphaAndBias); }

void EmptyExtents() {
  Matrix a(DType::kFloat32, {1, 3, 0}), b(DType::kFloat32, {1, 0, 4});
  Matrix c(DType::kFloat32, {1, 3, 4}), bias(DType::kFloat32, {1, 3, 4});
  c.FillRandom(1), bias.FillRandom(2);
  ExpectGemm(c, a, b, &bias, {.beta = 2});
  ExpectGemm(c, a, b, nullptr, {});
  Matrix d(DType::kFloat32, {1, 0, 5}), e(DType::kFloat32, {1, 5, 4});
  Matrix f(DType::kFloat32, {1, 0, 4});
  EXPECT_TRUE(Gemm(f, d, e, nullptr, {}).ok());
  Matrix g(DType::kFloat32, {0, 2, 5}), h(DType::kFloat32, {0, 5, 4});
  Matrix i(DType::kFloat32, {0, 2, 4});
  EXPECT_TRUE(Gemm(i, g, h, nullptr, {}).ok());
}

TEST(GemmTest, EmptyExtents) { ForEachIsa(EmptyExtents); }

void NotANumber() {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Matrix a(DType::kFloat32, {1, 2, 3}), b(DType::kFloat32, {1, 3, 20});
  Matrix c(DType::kFloat32, {1, 2, 20}), bias(DType::kFloat32, {1, 2, 20});
  a.FillRandom(1), b.FillRandom(2), bias.Fill([&](int64_t) { return nan; });
  // beta = 0 ignores the bias.
  ExpectGemm(c, a, b, &bias, {.beta = 0});
  // relu keeps NaN.
  a.Set(0, 0, 0, nan);
  ASSERT_TRUE(Gemm(c, a, b, nullptr, {.act = Act::kRelu}).ok());
  for (int64_t n = 0; n < 20; ++n) {
    EXPECT_TRUE(std::isnan(c.Get(0, 0, n)));
    EXPECT_FALSE(std::isnan(c.Get(0, 1, n)));
  }
}

TEST(GemmTest, NotANumber) { ForEachIsa(NotANumber); }

void HalfOperandsIntoFloat() {
  Matrix a(DType::kFloat16, {1, 8, 30}), b(DType::kFloat16, {1, 30, 24});
  Matrix c(DType::kFloat32, {1, 8, 24});
  a.FillRandom(1), b.FillRandom(2);
  ExpectGemm(c, a, b, nullptr, {});
}

TEST(GemmTest, HalfOperandsIntoFloat) { ForEachIsa(HalfOperandsIntoFloat); }

void RefusesWhatItDoesNotHave() {
  TestTensor complex(DType::kComplex64, {1, 2, 2});
  const Tensor operands[] = {complex.tensor(), complex.tensor()};
  ThreadPool pool(1);
  HostLaunch launch;
  launch.kernel = Kernel::kGemm;
  launch.dst = absl::MakeConstSpan(operands, 1);
  launch.src = operands;
  EXPECT_EQ(RunGemm(launch, pool).code(), absl::StatusCode::kUnimplemented);
  Matrix d(DType::kFloat32, {1, 2, 2}), e(DType::kFloat64, {1, 2, 2});
  EXPECT_EQ(Gemm(d, d, e, nullptr, {}).code(),
            absl::StatusCode::kUnimplemented);
  Matrix f(DType::kInt32, {1, 2, 2}), g(DType::kInt32, {1, 2, 2});
  EXPECT_EQ(Gemm(f, g, g, nullptr, {.act = Act::kSilu}).code(),
            absl::StatusCode::kUnimplemented);
}

TEST(GemmTest, RefusesWhatItDoesNotHave) {
  ForEachIsa(RefusesWhatItDoesNotHave);
}

// The result of a tile does not depend on who computes it.
void SameWithAnyNumberOfThreads() {
  Matrix a(DType::kFloat32, {1, 200, 150});
  Matrix b(DType::kFloat32, {1, 150, 180});
  a.FillRandom(1), b.FillRandom(2);
  Matrix one(DType::kFloat32, {1, 200, 180});
  Matrix four(DType::kFloat32, {1, 200, 180});
  ASSERT_TRUE(Gemm(one, a, b, nullptr, {.threads = 1}).ok());
  ASSERT_TRUE(Gemm(four, a, b, nullptr, {.threads = 4}).ok());
  for (int64_t row = 0; row < 200; ++row) {
    for (int64_t col = 0; col < 180; ++col) {
      ASSERT_EQ(one.Get(0, row, col), four.Get(0, row, col));
    }
  }
}

TEST(GemmTest, SameWithAnyNumberOfThreads) {
  ForEachIsa(SameWithAnyNumberOfThreads);
}

}  // namespace
}  // namespace tvarant::host
