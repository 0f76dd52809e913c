#include <cstdint>
#include <vector>

#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/test_util.h"
#include "gtest/gtest.h"

namespace tvarant::host {
namespace {

using Dims = TestTensor::Dims;

absl::Status Cumulate(TestTensor& dst, TestTensor& src, int64_t dim,
                      bool product) {
  static ThreadPool* const pool = new ThreadPool(2);
  const Tensor y = dst.tensor(), x = src.tensor();
  const int64_t ints[2] = {dim, product};
  HostLaunch launch;
  launch.kernel = Kernel::kCumulate;
  launch.ints = ints;
  launch.dst = absl::MakeConstSpan(&y, 1);
  launch.src = absl::MakeConstSpan(&x, 1);
  return RunCumulate(launch, *pool);
}

TEST(CumulateTest, DimsStridesDTypes) {
  struct Case {
    Dims sizes, src, dst;
  };
  const Case cases[] = {
      {{1000}, {1}, {1}},
      {{1000}, {2}, {3}},
      {{6, 700}, {700, 1}, {700, 1}},
      {{700, 6}, {6, 1}, {1, 700}},
      {{3, 5, 7}, {35, 7, 1}, {35, 7, 1}},
      {{3, 5, 7}, {1, 21, 3}, {36, 7, 1}},
      {{0, 3}, {3, 1}, {3, 1}},
      {{1, 1}, {1, 1}, {1, 1}},
  };
  ForEachIsa([&] {
    for (DType from : kComputeDTypes) {
      const DType to = IsFloating(from) ? from : DType::kInt64;
      for (const Case& c : cases) {
        for (size_t dim = 0; dim < c.sizes.size(); ++dim) {
          for (bool product : {false, true}) {
            SCOPED_TRACE(NameOf(from));
            TestTensor x(from, c.sizes, c.src, 1), y(to, c.sizes, c.dst, 2);
            TestRandom random(4);
            for (int64_t i = 0; i < x.numel(); ++i) {
              x.Set(i, product ? (random.Int(0, 9) ? 1 : 2) : random.Int(0, 3));
            }
            ASSERT_TRUE(
                Cumulate(y, x, static_cast<int64_t>(dim), product).ok());
            int64_t step = 1;
            for (size_t d = dim + 1; d < c.sizes.size(); ++d)
              step *= c.sizes[d];
            // Kept exact for floats: what overflows is not compared.
            std::vector<double> running(x.numel());
            TestTensor want(to, {1});
            for (int64_t i = 0; i < x.numel(); ++i) {
              const bool first = i / step % c.sizes[dim] == 0;
              const double before =
                  first ? (product ? 1 : 0) : running[i - step];
              running[i] = product ? before * x.Get(i) : before + x.Get(i);
              if (!IsFloating(to) && running[i] > 9e18) continue;
              want.Set(0, running[i]);
              ASSERT_TRUE(Near(y.Get(i), want.Get(0), 1e-12, 0)) << i;
            }
            EXPECT_TRUE(y.Untouched());
          }
        }
      }
    }
  });
}

TEST(CumulateTest, ScalarsAndBadDims) {
  TestTensor x(DType::kFloat32, {}), y(DType::kFloat32, {});
  x.Set(0, 4);
  ASSERT_TRUE(Cumulate(y, x, 0, false).ok());
  EXPECT_EQ(y.Get(0), 4);
  EXPECT_FALSE(Cumulate(y, x, 1, false).ok());
  EXPECT_FALSE(Cumulate(y, x, -1, false).ok());
}

}  // namespace
}  // namespace tvarant::host
