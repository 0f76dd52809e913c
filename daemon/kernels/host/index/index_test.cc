#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/test_util.h"
#include "gtest/gtest.h"

namespace tvarant::host {
namespace {

using Dims = TestTensor::Dims;

HostLaunch LaunchOf(Kernel kernel, absl::Span<const Tensor> dst,
                    absl::Span<const Tensor> src,
                    absl::Span<const int64_t> ints) {
  HostLaunch launch;
  launch.kernel = kernel;
  launch.dst = dst;
  launch.src = src;
  launch.ints = ints;
  return launch;
}

absl::Status Launch(Kernel kernel, TestTensor& dst, TestTensor& src0,
                    TestTensor& src1, std::vector<int64_t> ints,
                    uint32_t flags = 0, int threads = 2) {
  ThreadPool pool(threads);
  const Tensor outputs[] = {dst.tensor()};
  const Tensor inputs[] = {src0.tensor(), src1.tensor()};
  HostLaunch launch = LaunchOf(kernel, outputs, inputs, ints);
  launch.flags = flags;
  switch (kernel) {
    case Kernel::kIndexSelect:
      return RunIndexSelect(launch, pool);
    case Kernel::kGather:
      return RunGather(launch, pool);
    case Kernel::kScatterAdd:
      return RunScatterAdd(launch, pool);
    default:
      return RunEmbeddingBackward(launch, pool);
  }
}

void FillRandom(TestTensor& t, uint64_t seed, int64_t low, int64_t high) {
  TestRandom random(seed);
  for (int64_t i = 0; i < t.numel(); ++i) t.SetInt(i, random.Int(low, high));
}

// The row-major index of a position.
int64_t Flat(const Dims& sizes, const Dims& at) {
  int64_t flat = 0;
  for (size_t i = 0; i < sizes.size(); ++i) flat = flat * sizes[i] + at[i];
  return flat;
}

Dims PositionOf(const Dims& sizes, int64_t flat) {
  Dims at(sizes.size());
  for (size_t i = sizes.size(); i-- > 0;) {
    at[i] = flat % sizes[i];
    flat /= sizes[i];
  }
  return at;
}

Dims Reversed(const Dims& sizes) {
  Dims strides(sizes.size());
  int64_t stride = 2;
  for (size_t i = 0; i < sizes.size(); ++i) {
    strides[i] = stride;
    stride *= sizes[i];
  }
  return strides;
}

TEST(IndexSelectTest, AnyDimensionLayoutAndDType) {
  const Dims x_sizes = {4, 3, 6};
  for (DType dtype : kComputeDTypes) {
    for (int64_t dim = 0; dim < 3; ++dim) {
      for (DType index_dtype : {DType::kInt32, DType::kInt64}) {
        for (int layout = 0; layout < 4; ++layout) {
          Dims y_sizes = x_sizes;
          y_sizes[dim] = 5;
          TestTensor x(
              dtype, x_sizes,
              layout & 1 ? Reversed(x_sizes) : TestTensor::Dense(x_sizes), 1);
          TestTensor y(
              dtype, y_sizes,
              layout & 2 ? Reversed(y_sizes) : TestTensor::Dense(y_sizes));
          TestTensor index(index_dtype, {5}, {2});
          FillRandom(x, 1, 0, 50);
          FillRandom(index, 2, 0, x_sizes[dim] - 1);
          ASSERT_TRUE(Launch(Kernel::kIndexSelect, y, x, index, {dim}).ok());
          for (int64_t i = 0; i < y.numel(); ++i) {
            Dims at = PositionOf(y_sizes, i);
            at[dim] = index.GetInt(at[dim]);
            ASSERT_EQ(y.Get(i), x.Get(Flat(x_sizes, at)));
          }
          EXPECT_TRUE(y.Untouched());
        }
      }
    }
  }
}

TEST(IndexSelectTest, ComplexRowsAreCopiedWhole) {
  TestTensor x(DType::kComplex128, {3, 2}), y(DType::kComplex128, {2, 2});
  TestTensor index(DType::kInt64, {2});
  struct Pair {
    double re, im;
  };
  for (int64_t i = 0; i < 6; ++i) x.SetRaw(i, Pair{1.0 * i, -1.0 * i});
  index.SetInt(0, 2), index.SetInt(1, 0);
  ASSERT_TRUE(Launch(Kernel::kIndexSelect, y, x, index, {0}).ok());
  EXPECT_EQ(y.Raw<Pair>(0).re, 4);
  EXPECT_EQ(y.Raw<Pair>(1).im, -5);
  EXPECT_EQ(y.Raw<Pair>(3).re, 1);
}

TEST(IndexSelectTest, BadIndexIsSkippedAndReported) {
  TestTensor x(DType::kFloat32, {3, 2}), y(DType::kFloat32, {4, 2});
  TestTensor index(DType::kInt64, {4});
  FillRandom(x, 1, 1, 9);
  for (int64_t i = 0; i < 8; ++i) y.Set(i, -1);
  index.SetInt(0, 2), index.SetInt(1, 3), index.SetInt(2, -1);
  index.SetInt(3, int64_t{1} << 62);
  const absl::Status status = Launch(Kernel::kIndexSelect, y, x, index, {0});
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(status.message(),
            "index 3 is out of bounds for dimension 0 with size 3");
  EXPECT_EQ(y.Get(0), x.Get(4));
  for (int64_t i = 2; i < 8; ++i) EXPECT_EQ(y.Get(i), -1);
}

TEST(IndexSelectTest, WrapNegative) {
  TestTensor x(DType::kInt32, {3}), y(DType::kInt32, {3});
  TestTensor index(DType::kInt64, {3});
  for (int64_t i = 0; i < 3; ++i) x.SetInt(i, i + 10), index.SetInt(i, i - 3);
  ASSERT_TRUE(
      Launch(Kernel::kIndexSelect, y, x, index, {0}, kWrapNegative).ok());
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(y.GetInt(i), i + 10);
  index.SetInt(0, -4);
  EXPECT_EQ(
      Launch(Kernel::kIndexSelect, y, x, index, {0}, kWrapNegative).message(),
      "index -4 is out of bounds for dimension 0 with size 3");
}

TEST(IndexSelectTest, Empty) {
  TestTensor x(DType::kInt32, {0, 3}), y(DType::kInt32, {0, 3});
  TestTensor none(DType::kInt64, {0}), one(DType::kInt64, {1});
  EXPECT_TRUE(Launch(Kernel::kIndexSelect, y, x, none, {0}).ok());
  TestTensor z(DType::kInt32, {1, 3});
  one.SetInt(0, 0);
  EXPECT_EQ(Launch(Kernel::kIndexSelect, z, x, one, {0}).code(),
            absl::StatusCode::kOutOfRange);
}

TEST(IndexSelectTest, ManyRowsOverThreads) {
  TestTensor x(DType::kFloat32, {50, 64}), y(DType::kFloat32, {3000, 64});
  TestTensor index(DType::kInt64, {3000});
  FillRandom(x, 1, -9, 9), FillRandom(index, 2, 0, 49);
  ASSERT_TRUE(Launch(Kernel::kIndexSelect, y, x, index, {0}, 0, 3).ok());
  for (int64_t i = 0; i < y.numel(); ++i) {
    ASSERT_EQ(y.Get(i), x.Get(index.GetInt(i / 64) * 64 + i % 64));
  }
}

TEST(GatherTest, AnyDimensionLayoutAndDType) {
  const Dims x_sizes = {4, 3, 6}, y_sizes = {2, 3, 5};
  for (DType dtype : kComputeDTypes) {
    for (int64_t dim = 0; dim < 3; ++dim) {
      for (bool reversed : {false, true}) {
        TestTensor x(dtype, x_sizes,
                     reversed ? Reversed(x_sizes) : TestTensor::Dense(x_sizes));
        TestTensor y(dtype, y_sizes), index(DType::kInt64, y_sizes);
        FillRandom(x, 1, 0, 50);
        FillRandom(index, 2, 0, x_sizes[dim] - 1);
        ASSERT_TRUE(Launch(Kernel::kGather, y, x, index, {dim}).ok());
        for (int64_t i = 0; i < y.numel(); ++i) {
          Dims at = PositionOf(y_sizes, i);
          at[dim] = index.GetInt(i);
          ASSERT_EQ(y.Get(i), x.Get(Flat(x_sizes, at)));
        }
      }
    }
  }
}

TEST(GatherTest, BadIndexAndLongVector) {
  TestTensor x(DType::kFloat32, {100}), y(DType::kFloat32, {40000});
  TestTensor index(DType::kInt64, {40000});
  FillRandom(x, 1, 0, 9), FillRandom(index, 2, 0, 99);
  ASSERT_TRUE(Launch(Kernel::kGather, y, x, index, {0}).ok());
  for (int64_t i = 0; i < 40000; ++i) {
    ASSERT_EQ(y.Get(i), x.Get(index.GetInt(i)));
  }
  // The first bad one is reported, whichever thread meets it.
  index.SetInt(30000, -7), index.SetInt(39999, 100);
  y.Set(30000, 77);
  EXPECT_EQ(Launch(Kernel::kGather, y, x, index, {0}).message(),
            "index -7 is out of bounds for dimension 0 with size 100");
  EXPECT_EQ(y.Get(30000), 77);
}

TEST(ScatterAddTest, AnyDimensionLayoutAndDType) {
  const Dims y_sizes = {4, 3, 6}, sizes = {2, 3, 5};
  for (DType dtype : kComputeDTypes) {
    for (int64_t dim = 0; dim < 3; ++dim) {
      for (bool reversed : {false, true}) {
        TestTensor y(dtype, y_sizes,
                     reversed ? Reversed(y_sizes) : TestTensor::Dense(y_sizes));
        TestTensor index(DType::kInt64, sizes), values(dtype, sizes);
        FillRandom(y, 1, 0, 9), FillRandom(values, 2, 0, 9);
        FillRandom(index, 3, 0, y_sizes[dim] - 1);
        std::vector<double> want;
        for (int64_t i = 0; i < y.numel(); ++i) want.push_back(y.Get(i));
        for (int64_t i = 0; i < index.numel(); ++i) {
          Dims at = PositionOf(sizes, i);
          at[dim] = index.GetInt(i);
          double& sum = want[Flat(y_sizes, at)];
          sum += values.Get(i);
          if (dtype == DType::kBool) sum = sum != 0;
        }
        ASSERT_TRUE(Launch(Kernel::kScatterAdd, y, index, values, {dim}).ok());
        for (int64_t i = 0; i < y.numel(); ++i) ASSERT_EQ(y.Get(i), want[i]);
        EXPECT_TRUE(y.Untouched());
      }
    }
  }
}

TEST(ScatterAddTest, WrapsAndReportsBadIndex) {
  TestTensor y(DType::kInt8, {2}), index(DType::kInt64, {3});
  TestTensor values(DType::kInt8, {3});
  for (int64_t i = 0; i < 3; ++i) values.SetInt(i, 100);
  y.SetInt(0, 0), y.SetInt(1, 0);
  index.SetInt(0, 1), index.SetInt(1, 2), index.SetInt(2, 1);
  EXPECT_EQ(Launch(Kernel::kScatterAdd, y, index, values, {0}).message(),
            "index 2 is out of bounds for dimension 0 with size 2");
  EXPECT_EQ(y.GetInt(0), 0);
  EXPECT_EQ(y.GetInt(1), -56);
}

TEST(ScatterAddTest, SameWithAnyNumberOfThreads) {
  TestTensor index(DType::kInt64, {500, 70}),
      values(DType::kFloat32, {500, 70});
  FillRandom(index, 1, 0, 9);
  TestRandom random(2);
  for (int64_t i = 0; i < values.numel(); ++i)
    values.Set(i, random.Real(-1, 1));
  std::vector<double> first;
  for (int threads : {1, 2, 4}) {
    TestTensor y(DType::kFloat32, {10, 70});
    for (int64_t i = 0; i < y.numel(); ++i) y.Set(i, 0);
    ASSERT_TRUE(
        Launch(Kernel::kScatterAdd, y, index, values, {0}, 0, threads).ok());
    std::vector<double> all;
    for (int64_t i = 0; i < y.numel(); ++i) all.push_back(y.Get(i));
    if (first.empty()) first = all;
    EXPECT_EQ(all, first);
  }
}

void CheckEmbedding(DType dtype, int64_t padding, bool average) {
  constexpr int64_t kWords = 7, kWidth = 5, kCount = 40;
  TestTensor dy(dtype, {kCount, kWidth}), dweight(dtype, {kWords, kWidth});
  TestTensor index(DType::kInt64, {kCount});
  TestRandom random(3);
  for (int64_t i = 0; i < dy.numel(); ++i) dy.Set(i, random.Real(-1, 1));
  FillRandom(index, 4, 0, kWords - 2);  // the last word never occurs
  for (int64_t i = 0; i < dweight.numel(); ++i) dweight.Set(i, 9);
  ASSERT_TRUE(Launch(Kernel::kEmbeddingBackward, dweight, dy, index,
                     {padding, average ? 1 : 0})
                  .ok());
  const double tolerance = dtype == DType::kFloat64   ? 1e-14
                           : dtype == DType::kFloat32 ? 1e-5
                           : dtype == DType::kFloat16 ? 2e-3
                                                      : 2e-2;
  for (int64_t v = 0; v < kWords; ++v) {
    for (int64_t d = 0; d < kWidth; ++d) {
      double sum = 0, count = 0;
      for (int64_t t = 0; t < kCount; ++t) {
        if (index.GetInt(t) != v || v == padding) continue;
        sum += dy.Get(t * kWidth + d);
        ++count;
      }
      if (average && count > 0) sum /= count;
      EXPECT_TRUE(Near(dweight.Get(v * kWidth + d), sum, tolerance, tolerance));
    }
  }
}

TEST(EmbeddingBackwardTest, PaddingAndFrequency) {
  for (DType dtype :
       {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    CheckEmbedding(dtype, -1, false);
    CheckEmbedding(dtype, 2, false);
    CheckEmbedding(dtype, -1, true);
    CheckEmbedding(dtype, 0, true);
  }
}

TEST(EmbeddingBackwardTest, BadIndex) {
  TestTensor dy(DType::kFloat32, {2, 3}), dweight(DType::kFloat32, {4, 3});
  TestTensor index(DType::kInt32, {2});
  for (int64_t i = 0; i < 6; ++i) dy.Set(i, 1);
  index.SetInt(0, 1), index.SetInt(1, 4);
  const absl::Status status =
      Launch(Kernel::kEmbeddingBackward, dweight, dy, index, {-1, 0});
  EXPECT_EQ(status.message(),
            "index 4 is out of bounds for dimension 0 with size 4");
  for (int64_t i = 0; i < 12; ++i) {
    EXPECT_EQ(dweight.Get(i), i / 3 == 1 ? 1 : 0);
  }
}

}  // namespace
}  // namespace tvarant::host
