#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/test_util.h"
#include "gtest/gtest.h"

namespace tvarant::host {
namespace {

using Dims = TestTensor::Dims;

double ToleranceOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return 2e-3;
    case DType::kBFloat16:
      return 1.6e-2;
    case DType::kFloat32:
      return 2e-6;
    default:
      return 1e-14;
  }
}

absl::Status Launch(Kernel kernel, const std::vector<TestTensor*>& src,
                    TestTensor& dst, int64_t dim, int threads = 2) {
  ThreadPool pool(threads);
  std::vector<Tensor> inputs;
  for (TestTensor* t : src) inputs.push_back(t->tensor());
  const Tensor outputs[] = {dst.tensor()};
  const int64_t ints[] = {dim};
  HostLaunch launch;
  launch.kernel = kernel;
  launch.ints = ints;
  launch.dst = outputs;
  launch.src = inputs;
  const bool backward = kernel == Kernel::kSoftmaxBackward ||
                        kernel == Kernel::kLogSoftmaxBackward;
  return backward ? RunSoftmaxBackward(launch, pool) : RunSoftmax(launch, pool);
}

void FillRandom(TestTensor& t, uint64_t seed) {
  TestRandom random(seed);
  for (int64_t i = 0; i < t.numel(); ++i) t.Set(i, random.Real(-4, 4));
}

// Calls body(indices) with the row-major indices of each line along dim.
template <typename Body>
void ForEachLine(const Dims& sizes, int64_t dim, Body body) {
  int64_t inner = 1, outer = 1;
  for (int64_t i = 0; i < static_cast<int64_t>(sizes.size()); ++i) {
    if (i < dim) outer *= sizes[i];
    if (i > dim) inner *= sizes[i];
  }
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      std::vector<int64_t> line;
      for (int64_t k = 0; k < sizes[dim]; ++k) {
        line.push_back((o * sizes[dim] + k) * inner + i);
      }
      body(line);
    }
  }
}

void ExpectForward(TestTensor& x, TestTensor& y, int64_t dim, bool log) {
  const Kernel kernel = log ? Kernel::kLogSoftmax : Kernel::kSoftmax;
  ASSERT_TRUE(Launch(kernel, {&x}, y, dim).ok());
  ForEachLine(x.sizes(), dim, [&](const std::vector<int64_t>& line) {
    double max = -INFINITY, sum = 0;
    for (int64_t i : line) max = std::max(max, x.Get(i));
    for (int64_t i : line) sum += std::exp(x.Get(i) - max);
    for (int64_t i : line) {
      const double want =
          log ? x.Get(i) - max - std::log(sum) : std::exp(x.Get(i) - max) / sum;
      ASSERT_TRUE(Near(y.Get(i), want, ToleranceOf(y.dtype()),
                       log ? ToleranceOf(y.dtype()) : 1e-7));
    }
  });
  EXPECT_TRUE(y.Untouched());
}

void ExpectBackward(TestTensor& dy, TestTensor& y, TestTensor& dx, int64_t dim,
                    bool log) {
  const Kernel kernel =
      log ? Kernel::kLogSoftmaxBackward : Kernel::kSoftmaxBackward;
  ASSERT_TRUE(Launch(kernel, {&dy, &y}, dx, dim).ok());
  ForEachLine(y.sizes(), dim, [&](const std::vector<int64_t>& line) {
    double sum = 0;
    for (int64_t i : line) sum += log ? dy.Get(i) : dy.Get(i) * y.Get(i);
    for (int64_t i : line) {
      const double want = log ? dy.Get(i) - std::exp(y.Get(i)) * sum
                              : y.Get(i) * (dy.Get(i) - sum);
      ASSERT_TRUE(Near(dx.Get(i), want, ToleranceOf(dx.dtype()),
                       10 * ToleranceOf(dx.dtype())));
    }
  });
  EXPECT_TRUE(dx.Untouched());
}

void Sizes() {
  for (DType dtype :
       {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    for (int64_t n : {1, 2, 7, 8, 9, 16, 33, 100}) {
      for (bool log : {false, true}) {
        TestTensor x(dtype, {3, n}), y(dtype, {3, n}), dx(dtype, {3, n});
        FillRandom(x, n);
        ExpectForward(x, y, 1, log);
        FillRandom(x, n + 1);
        ExpectBackward(x, y, dx, 1, log);
      }
    }
  }
}

TEST(SoftmaxTest, Sizes) { ForEachIsa(Sizes); }

void AnyDimensionOfAnyLayout() {
  const Dims sizes = {3, 5, 20};
  for (const Dims& strides : {Dims{100, 20, 1}, {1, 3, 15}, {240, 45, 2}}) {
    for (int64_t dim = 0; dim < 3; ++dim) {
      for (bool log : {false, true}) {
        TestTensor x(DType::kFloat32, sizes, strides, 2);
        TestTensor y(DType::kFloat32, sizes),
            z(DType::kFloat32, sizes, strides);
        FillRandom(x, 1);
        ExpectForward(x, y, dim, log);
        ExpectForward(x, z, dim, log);
        ExpectBackward(x, z, y, dim, log);
      }
    }
  }
}

TEST(SoftmaxTest, AnyDimensionOfAnyLayout) {
  ForEachIsa(AnyDimensionOfAnyLayout);
}

TEST(SoftmaxTest, ManyRowsOverThreads) {
  TestTensor x(DType::kFloat32, {1000, 37}), y(DType::kFloat32, {1000, 37});
  FillRandom(x, 1);
  ExpectForward(x, y, 1, false);
  ExpectForward(x, y, 0, true);
}

void Infinities() {
  const double inf = INFINITY;
  TestTensor x(DType::kFloat32, {3, 9}), y(DType::kFloat32, {3, 9});
  for (int64_t i = 0; i < 27; ++i) x.Set(i, -inf);
  x.Set(9, 1);
  for (int64_t i = 18; i < 27; ++i) x.Set(i, 0);
  x.Set(20, std::numeric_limits<double>::quiet_NaN());
  ASSERT_TRUE(Launch(Kernel::kSoftmax, {&x}, y, 1).ok());
  for (int64_t i = 0; i < 9; ++i) {
    EXPECT_TRUE(std::isnan(y.Get(i)));
    EXPECT_EQ(y.Get(9 + i), i == 0 ? 1 : 0);
    EXPECT_TRUE(std::isnan(y.Get(18 + i)));
  }
  ASSERT_TRUE(Launch(Kernel::kLogSoftmax, {&x}, y, 1).ok());
  EXPECT_TRUE(std::isnan(y.Get(0)));
  EXPECT_EQ(y.Get(9), 0);
  EXPECT_EQ(y.Get(10), -inf);
}

TEST(SoftmaxTest, Infinities) { ForEachIsa(Infinities); }

TEST(SoftmaxTest, LargeValuesDoNotOverflow) {
  TestTensor x(DType::kFloat32, {1, 3}), y(DType::kFloat32, {1, 3});
  x.Set(0, 1e30), x.Set(1, 1e30), x.Set(2, -1e30);
  ASSERT_TRUE(Launch(Kernel::kSoftmax, {&x}, y, 1).ok());
  EXPECT_EQ(y.Get(0), 0.5);
  EXPECT_EQ(y.Get(2), 0);
}

TEST(SoftmaxTest, HalfIntoFloat) {
  for (DType half : {DType::kFloat16, DType::kBFloat16}) {
    TestTensor x(half, {4, 30}), y(DType::kFloat32, {4, 30});
    FillRandom(x, 1);
    ExpectForward(x, y, 1, false);
    ExpectForward(x, y, 1, true);
  }
}

TEST(SoftmaxTest, EmptyAndScalar) {
  TestTensor x(DType::kFloat32, {0, 3}), y(DType::kFloat32, {0, 3});
  EXPECT_TRUE(Launch(Kernel::kSoftmax, {&x}, y, 1).ok());
  EXPECT_TRUE(Launch(Kernel::kLogSoftmax, {&x}, y, 0).ok());
  TestTensor a(DType::kFloat32, {}), b(DType::kFloat32, {});
  a.Set(0, 5);
  ASSERT_TRUE(Launch(Kernel::kSoftmax, {&a}, b, 0).ok());
  EXPECT_EQ(b.Get(0), 1);
}

TEST(SoftmaxTest, RefusesIntegers) {
  TestTensor x(DType::kInt32, {2, 3}), y(DType::kFloat32, {2, 3});
  EXPECT_EQ(Launch(Kernel::kSoftmax, {&x}, y, 1).code(),
            absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace tvarant::host
