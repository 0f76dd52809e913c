// fill, arange, cat and triangle.

#include "daemon/kernels/host/fill.h"

#include <cstdint>
#include <cstring>
#include <utility>
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

HostLaunch Make(Kernel kernel, const Tensor& dst, absl::Span<const Tensor> src,
                absl::Span<const int64_t> ints,
                absl::Span<const double> floats = {}) {
  HostLaunch launch;
  launch.kernel = kernel;
  launch.dst = absl::MakeConstSpan(&dst, 1);
  launch.src = src;
  launch.ints = ints;
  launch.floats = floats;
  return launch;
}

TEST(FillTest, EverySizeAndStride) {
  const std::vector<std::pair<Dims, Dims>> shapes = {
      {{}, {}},
      {{0}, {1}},
      {{7}, {1}},
      {{7}, {3}},
      {{200000}, {1}},
      {{100000}, {2}},
      {{5, 6}, {1, 5}},
      {{5, 6}, {9, 1}},
      {{2, 3, 4}, {50, 4, 1}},
      {{300, 700}, {701, 1}},
  };
  for (DType dtype : {DType::kBool, DType::kInt16, DType::kFloat32,
                      DType::kInt64, DType::kComplex128}) {
    for (const auto& [sizes, strides] : shapes) {
      TestTensor y(dtype, sizes, strides, 1);
      const int64_t bits[2] = {0x0102030405060708, -2};
      const Tensor tensor = y.tensor();
      ASSERT_TRUE(RunFill(Make(Kernel::kFill, tensor, {}, bits), Pool()).ok());
      for (int64_t i = 0; i < y.numel(); ++i) {
        ASSERT_EQ(std::memcmp(y.At(i), bits, SizeOf(dtype)), 0);
      }
      EXPECT_TRUE(y.Untouched());
    }
  }
}

TEST(ArangeTest, EveryDType) {
  for (DType dtype : kComputeDTypes) {
    for (int64_t stride : {1, 3}) {
      TestTensor y(dtype, {1300}, {stride}), want(dtype, {1300});
      const int64_t ints[2] = {-5, 3};
      const double floats[2] = {-5.5, 0.25};
      const Tensor tensor = y.tensor();
      ASSERT_TRUE(
          RunArange(Make(Kernel::kArange, tensor, {}, ints, floats), Pool())
              .ok());
      for (int64_t i = 0; i < 1300; ++i) {
        if (IsFloating(dtype)) {
          want.Set(i, -5.5 + static_cast<double>(i) * 0.25);
        } else {
          want.SetInt(i, -5 + 3 * i);
        }
        ASSERT_EQ(y.Get(i), want.Get(i)) << NameOf(dtype) << " " << i;
      }
      EXPECT_TRUE(y.Untouched());
    }
  }
}

TEST(CatTest, AlongEachDimensionWithConversion) {
  for (DType dtype : {DType::kFloat32, DType::kInt64, DType::kUInt8}) {
    for (int dim = 0; dim < 3; ++dim) {
      const int64_t parts[] = {3, 0, 1, 70};
      Dims sizes = {4, 5, 6};
      sizes[dim] = 74;
      TestTensor y(dtype, sizes);
      std::vector<TestTensor> inputs;
      std::vector<Tensor> src;
      for (int64_t part : parts) {
        sizes[dim] = part;
        const bool flipped = part == 3;
        inputs.emplace_back(
            part == 1 ? DType::kInt16 : dtype, sizes,
            flipped ? Dims{1, 4 * 74, 4 * 74 * 74} : TestTensor::Dense(sizes));
        for (int64_t i = 0; i < inputs.back().numel(); ++i) {
          inputs.back().Set(i, static_cast<double>((i * 7 + part) % 100));
        }
      }
      // An empty tensor of another shape is nothing.
      inputs.emplace_back(dtype, Dims{0});
      for (TestTensor& input : inputs) src.push_back(input.tensor());
      const int64_t ints[] = {dim};
      const Tensor tensor = y.tensor();
      ASSERT_TRUE(RunCat(Make(Kernel::kCat, tensor, src, ints), Pool()).ok());
      for (int64_t i = 0; i < y.numel(); ++i) {
        int64_t index[3];
        int64_t rest = i;
        for (int d = 2; d >= 0; --d) {
          index[d] = rest % y.sizes()[d];
          rest /= y.sizes()[d];
        }
        size_t input = 0;
        while (index[dim] >= parts[input]) index[dim] -= parts[input++];
        int64_t at = 0;
        for (int d = 0; d < 3; ++d) {
          at = at * inputs[input].sizes()[d] + index[d];
        }
        ASSERT_EQ(y.Get(i), inputs[input].Get(at));
      }
    }
  }
}

TEST(CatTest, RefusesWhatDoesNotFit) {
  TestTensor y(DType::kFloat32, {3}), x(DType::kFloat32, {4});
  const std::vector<Tensor> src = {x.tensor()};
  const int64_t dims[] = {0, 1, -1};
  const Tensor tensor = y.tensor();
  for (const int64_t& dim : dims) {
    EXPECT_FALSE(
        RunCat(Make(Kernel::kCat, tensor, src, absl::MakeConstSpan(&dim, 1)),
               Pool())
            .ok());
  }
}

TEST(TriangleTest, DiagonalsAndStrides) {
  for (DType dtype : {DType::kBool, DType::kFloat16, DType::kFloat32,
                      DType::kInt64, DType::kComplex128}) {
    for (int64_t upper : {0, 1}) {
      for (int64_t diagonal : {int64_t{0}, int64_t{1}, int64_t{-2}, int64_t{9},
                               int64_t{-9}, INT64_MAX, INT64_MIN}) {
        TestTensor x(dtype, {2, 5, 7}, {35, 1, 5}), y(dtype, {2, 5, 7});
        for (int64_t i = 0; i < x.numel(); ++i) {
          std::memset(x.At(i), static_cast<int>(i + 1), SizeOf(dtype));
        }
        const int64_t ints[2] = {diagonal, upper};
        const Tensor to = y.tensor();
        const std::vector<Tensor> from = {x.tensor()};
        ASSERT_TRUE(
            RunTriangle(Make(Kernel::kTriangle, to, from, ints), Pool()).ok());
        for (int64_t i = 0; i < y.numel(); ++i) {
          const int64_t row = i / 7 % 5, column = i % 7;
          // column - row >= diagonal, without overflow
          const bool keep =
              upper ? column - row >= diagonal : column - row <= diagonal;
          const std::vector<char> zero(SizeOf(dtype));
          ASSERT_EQ(
              std::memcmp(y.At(i), keep ? x.At(i) : zero.data(), SizeOf(dtype)),
              0);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tvarant::host
