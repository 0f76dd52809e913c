// Programs, shapes, strides and dtypes of pointwise launches.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/test_util.h"
#include "gtest/gtest.h"
#include "proto/ops/program.h"

namespace tvarant::host {
namespace {

using Dims = TestTensor::Dims;

ThreadPool& Pool() {
  static ThreadPool* const pool = new ThreadPool(2);
  return *pool;
}

struct Launch {
  std::vector<Tensor> dst;
  std::vector<Tensor> src;
  std::vector<double> floats;
  std::vector<int64_t> ints;
  int64_t batch = 0;
  uint32_t flags = 0;

  HostLaunch Make(const Program& program) const {
    HostLaunch launch;
    launch.kernel = Kernel::kPointwise;
    launch.program = &program;
    launch.dst = dst;
    launch.src = src;
    launch.floats = floats;
    launch.ints = ints;
    launch.batch = batch;
    launch.flags = flags;
    return launch;
  }
  absl::Status Run(const Program& program) const {
    EXPECT_EQ(ValidateProgram(program), "");
    return RunPointwise(Make(program), Pool());
  }
};

void Fill(TestTensor& x, int seed) {
  TestRandom random(seed);
  for (int64_t i = 0; i < x.numel(); ++i) x.Set(i, random.Int(0, 100));
}

Program Combine(DType dtype) {  // a * 2 + b
  ProgramBuilder p;
  const int a = p.Load(0, dtype);
  const int b = p.Load(1, dtype);
  p.Store(p.Op(PointwiseOp::kAdd, dtype,
               p.Op(PointwiseOp::kScale, dtype, a, -1, -1, 2), b));
  return std::move(p).Build();
}

void ExpectCombined(TestTensor& a, TestTensor& b, TestTensor& y) {
  ASSERT_TRUE((Launch{{y.tensor()}, {a.tensor(), b.tensor()}, {}, {}}.Run(
                   Combine(y.dtype())))
                  .ok());
  TestTensor want(y.dtype(), {1});
  for (int64_t i = 0; i < y.numel(); ++i) {
    want.Set(0, 2 * a.Get(i) + b.Get(i));
    ASSERT_EQ(y.Get(i), want.Get(0)) << i;
  }
  EXPECT_TRUE(y.Untouched());
}

TEST(PointwiseTest, SizesAroundVectorsAndBlocks) {
  ForEachIsa([] {
    for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kInt64,
                        DType::kFloat16, DType::kUInt8}) {
      for (int64_t n : {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 255, 1025,
                        4096, 4097, 100003}) {
        TestTensor a(dtype, {n}), b(dtype, {n}), y(dtype, {n});
        Fill(a, 1);
        Fill(b, 2);
        ExpectCombined(a, b, y);
      }
    }
  });
}

struct Layouts {
  Dims sizes, a, b, y;
};

TEST(PointwiseTest, StridesBroadcastsOffsets) {
  const Layouts cases[] = {
      {{}, {}, {}, {}},
      {{1}, {0}, {7}, {1}},
      {{5, 7}, {7, 1}, {0, 1}, {7, 1}},        // row bias
      {{5, 7}, {7, 1}, {1, 0}, {7, 1}},        // column bias
      {{5, 7}, {1, 5}, {7, 1}, {7, 1}},        // transposed input
      {{5, 7}, {7, 1}, {7, 1}, {1, 5}},        // transposed output
      {{5, 7}, {1, 5}, {1, 5}, {1, 5}},        // all transposed
      {{5, 7}, {20, 2}, {9, 1}, {14, 2}},      // gaps
      {{5, 7}, {0, 0}, {7, 1}, {7, 1}},        // a scalar
      {{3, 600}, {600, 1}, {0, 1}, {600, 1}},  // long rows
      {{3, 600}, {1, 0}, {0, 1}, {601, 1}},    // outer sum
      {{3, 600}, {600, 1}, {1200, 2}, {1, 3}},
      {{2, 3, 4, 5}, {60, 20, 5, 1}, {0, 0, 5, 1}, {60, 20, 5, 1}},
      {{2, 3, 4, 5}, {60, 1, 15, 3}, {0, 1, 0, 0}, {60, 20, 5, 1}},
      {{2, 3, 4, 5}, {1, 2, 6, 24}, {60, 1, 15, 3}, {60, 1, 15, 3}},
      {{2, 1, 4, 1, 3}, {12, 5, 3, 9, 1}, {0, 0, 3, 0, 1}, {12, 1, 3, 1, 1}},
      {{700, 3}, {3, 1}, {0, 1}, {3, 1}},
      {{700, 300}, {300, 1}, {1, 700}, {300, 1}},
      {{4, 0, 3}, {3, 3, 1}, {0, 3, 1}, {3, 3, 1}},
  };
  ForEachIsa([&] {
    for (const Layouts& c : cases) {
      for (DType dtype : {DType::kFloat32, DType::kInt64, DType::kBFloat16}) {
        TestTensor a(dtype, c.sizes, c.a, 3), b(dtype, c.sizes, c.b, 1);
        TestTensor y(dtype, c.sizes, c.y, 5);
        Fill(a, 3);
        Fill(b, 4);
        ExpectCombined(a, b, y);
      }
    }
  });
}

TEST(PointwiseTest, RandomLayouts) {
  TestRandom random(11);
  for (int round = 0; round < 300; ++round) {
    const int rank = static_cast<int>(random.Int(0, 5));
    Dims sizes(rank);
    for (int64_t& size : sizes)
      size = random.Int(1, random.Int(0, 5) ? 6 : 300);
    const auto strides = [&](bool may_repeat) {
      std::vector<int> order(rank);
      for (int i = 0; i < rank; ++i) order[i] = i;
      for (int i = rank - 1; i > 0; --i) {
        std::swap(order[i], order[random.Int(0, i)]);
      }
      Dims result(rank);
      int64_t stride = random.Int(0, 3) ? 1 : 2;
      for (int dim : order) {
        result[dim] = stride;
        stride *= sizes[dim] + (random.Int(0, 4) ? 0 : 1);
        if (may_repeat && !random.Int(0, 3)) result[dim] = 0;
      }
      return result;
    };
    TestTensor a(DType::kFloat32, sizes, strides(true), random.Int(0, 3));
    TestTensor b(DType::kFloat32, sizes, strides(true), random.Int(0, 3));
    TestTensor y(DType::kFloat32, sizes, strides(false), random.Int(0, 3));
    if (y.numel() > 300000) continue;
    Fill(a, round);
    Fill(b, round + 1);
    ExpectCombined(a, b, y);
    if (HasFailure()) FAIL() << "round " << round;
  }
}

TEST(PointwiseTest, InPlace) {
  TestTensor a(DType::kFloat32, {5000}), b(DType::kFloat32, {5000});
  Fill(a, 1);
  Fill(b, 2);
  TestTensor before = a;
  ASSERT_TRUE((Launch{{a.tensor()}, {a.tensor(), b.tensor()}, {}, {}}.Run(
                   Combine(DType::kFloat32)))
                  .ok());
  for (int64_t i = 0; i < 5000; ++i) {
    ASSERT_EQ(a.Get(i), 2 * before.Get(i) + b.Get(i));
  }
}

// More elements than the caches hold, at odd addresses; one output is an input.
TEST(PointwiseTest, LargeOutputs) {
  ForEachIsa([] {
    ProgramBuilder p;
    const int a = p.Load(0, DType::kFloat32);
    const int b = p.Load(1, DType::kFloat32);
    p.Store(p.Op(PointwiseOp::kSub, DType::kFloat32, a, b));
    p.Store(p.Op(PointwiseOp::kAdd, DType::kFloat32, a, b));
    const Program program = std::move(p).Build();
    const int64_t n = (4 << 20) + 5;
    TestTensor x(DType::kFloat32, {n}, {1}, 1), y(DType::kFloat32, {n});
    TestTensor z(DType::kFloat32, {n}, {1}, 3);
    for (int64_t i = 0; i < n; ++i) {
      x.SetRaw(i, static_cast<float>(i % 1000));
      y.SetRaw(i, static_cast<float>(i % 77));
    }
    ASSERT_TRUE(
        (Launch{{z.tensor(), x.tensor()}, {x.tensor(), y.tensor()}, {}, {}}.Run(
             program))
            .ok());
    for (int64_t i = 0; i < n; ++i) {
      const float before = static_cast<float>(i % 1000);
      ASSERT_EQ(z.Raw<float>(i), before - y.Raw<float>(i));
      ASSERT_EQ(x.Raw<float>(i), before + y.Raw<float>(i));
    }
    EXPECT_TRUE(z.Untouched());
  });
}

// Two outputs onto two inputs, each needed by the other.
TEST(PointwiseTest, OutputsOntoInputsThatAreStillNeeded) {
  ProgramBuilder p;
  const int a = p.Load(0, DType::kFloat32);
  const int b = p.Load(1, DType::kFloat32);
  p.Store(p.Op(PointwiseOp::kSub, DType::kFloat32, a, b));
  p.Store(p.Op(PointwiseOp::kMul, DType::kFloat32, a, b));
  const Program program = std::move(p).Build();
  TestTensor x(DType::kFloat32, {9000}), y(DType::kFloat32, {9000});
  Fill(x, 1);
  Fill(y, 2);
  TestTensor x0 = x, y0 = y;
  ASSERT_TRUE(
      (Launch{{x.tensor(), y.tensor()}, {x.tensor(), y.tensor()}, {}, {}}.Run(
           program))
          .ok());
  for (int64_t i = 0; i < 9000; ++i) {
    ASSERT_EQ(x.Get(i), x0.Get(i) - y0.Get(i));
    ASSERT_EQ(y.Get(i), x0.Get(i) * y0.Get(i));
  }
}

TEST(PointwiseTest, SwapsThroughCasts) {
  for (bool cast : {false, true}) {
    ProgramBuilder p;
    int a = p.Load(0, DType::kInt32);
    int b = p.Load(1, DType::kInt32);
    if (cast) {
      a = p.Op(PointwiseOp::kCast, DType::kInt32, a);
      b = p.Op(PointwiseOp::kIdentity, DType::kInt32, b);
    }
    p.Store(b);
    p.Store(a);
    const Program program = std::move(p).Build();
    TestTensor x(DType::kInt32, {700}), y(DType::kInt32, {700});
    Fill(x, 1);
    Fill(y, 2);
    TestTensor x0 = x, y0 = y;
    ASSERT_TRUE(
        (Launch{{x.tensor(), y.tensor()}, {x.tensor(), y.tensor()}, {}, {}}.Run(
             program))
            .ok());
    for (int64_t i = 0; i < 700; ++i) {
      ASSERT_EQ(x.Get(i), y0.Get(i));
      ASSERT_EQ(y.Get(i), x0.Get(i));
    }
  }
}

TEST(PointwiseTest, WhereScalarsConstantsComparisons) {
  ForEachIsa([] {
    // x > s ? x : k, and the comparison; s a launch scalar.
    for (DType dtype : {DType::kFloat64, DType::kInt64, DType::kFloat16}) {
      ProgramBuilder p;
      const int x = p.Load(0, dtype);
      const int s = p.Scalar(0, dtype);
      const int over = p.Op(PointwiseOp::kGt, DType::kBool, x, s);
      p.Store(p.Op(PointwiseOp::kWhere, dtype, over, x, p.Const(-7, dtype)));
      p.Store(over);
      const Program program = std::move(p).Build();
      TestTensor a(dtype, {3000}), y(dtype, {3000}), m(DType::kBool, {3000});
      Fill(a, 5);
      ASSERT_TRUE(
          (Launch{{y.tensor(), m.tensor()}, {a.tensor()}, {50}, {50}}.Run(
               program))
              .ok());
      for (int64_t i = 0; i < 3000; ++i) {
        const bool want = a.Get(i) > 50;
        ASSERT_EQ(m.Get(i), want);
        ASSERT_EQ(y.Get(i), want ? a.Get(i) : -7);
      }
    }
  });
}

TEST(PointwiseTest, CastsInsideAProgram) {
  ForEachIsa([] {
    // float -> int8 wraps; -> bool is != 0; -> float16 rounds.
    ProgramBuilder p;
    const int x = p.Load(0, DType::kFloat32);
    const int i8 = p.Op(PointwiseOp::kCast, DType::kInt8, x);
    const int flag = p.Op(PointwiseOp::kCast, DType::kBool, x);
    const int half = p.Op(PointwiseOp::kCast, DType::kFloat16, x);
    p.Store(i8);
    p.Store(flag);
    p.Store(half);
    const Program program = std::move(p).Build();
    TestTensor a(DType::kFloat32, {4});
    const double values[] = {300.7, 0.25, -1.9, 2049.0};
    for (int i = 0; i < 4; ++i) a.Set(i, values[i]);
    TestTensor y(DType::kInt32, {4}), m(DType::kInt64, {4});
    TestTensor h(DType::kFloat64, {4});
    ASSERT_TRUE(
        (Launch{{y.tensor(), m.tensor(), h.tensor()}, {a.tensor()}, {}, {}}.Run(
             program))
            .ok());
    const double want_i8[] = {44, 0, -1, 1};
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(y.Get(i), want_i8[i]);
      EXPECT_EQ(m.Get(i), 1);
      EXPECT_EQ(
          h.Get(i),
          HalfValue(HalfBits(static_cast<float>(values[i]), 10, 15), 10, 15));
    }
  });
}

// Random programs of many live values against a naive evaluation in double.
TEST(PointwiseTest, RandomPrograms) {
  for (int round = 0; round < 200; ++round) {
    TestRandom random(round);
    const int num_inputs = static_cast<int>(random.Int(1, 5));
    const int num_nodes =
        static_cast<int>(random.Int(1, random.Int(0, 9) ? 20 : 400));
    ProgramBuilder p;
    std::vector<int> values;
    for (int i = 0; i < num_inputs; ++i) {
      values.push_back(p.Load(i, DType::kInt64));
    }
    struct Naive {
      PointwiseOp op;
      int a, b;
      int64_t constant;
    };
    std::vector<Naive> naive(num_inputs, Naive{PointwiseOp::kLoad, 0, 0, 0});
    for (int i = 0; i < num_nodes; ++i) {
      const int a =
          values[random.Int(0, static_cast<int64_t>(values.size()) - 1)];
      const int b =
          values[random.Int(0, static_cast<int64_t>(values.size()) - 1)];
      Naive node{PointwiseOp::kConst, a, b, random.Int(-9, 9)};
      switch (random.Int(0, 4)) {
        case 0:
          node.op = PointwiseOp::kAdd;
          break;
        case 1:
          node.op = PointwiseOp::kMul;
          break;
        case 2:
          node.op = PointwiseOp::kSub;
          break;
        case 3:
          node.op = PointwiseOp::kIdentity;
          break;
        default:
          break;
      }
      naive.push_back(node);
      values.push_back(node.op == PointwiseOp::kConst
                           ? p.ConstInt(node.constant, DType::kInt64)
                       : node.op == PointwiseOp::kIdentity
                           ? p.Op(node.op, DType::kInt64, a)
                           : p.Op(node.op, DType::kInt64, a, b));
    }
    const int num_outputs = static_cast<int>(random.Int(1, 4));
    std::vector<int> stored;
    for (int i = 0; i < num_outputs; ++i) {
      stored.push_back(static_cast<int>(
          random.Int(0, static_cast<int64_t>(values.size()) - 1)));
      p.Store(values[stored.back()]);
    }
    const Program program = std::move(p).Build();
    const int64_t n = random.Int(1, 3000);
    std::vector<TestTensor> in, out;
    Launch launch;
    for (int i = 0; i < num_inputs; ++i) {
      // Some inputs repeat one element.
      in.emplace_back(DType::kInt64, Dims{n}, Dims{random.Int(0, 3) ? 1 : 0});
      Fill(in.back(), round + i);
    }
    for (int i = 0; i < num_outputs; ++i) {
      out.emplace_back(DType::kInt64, Dims{n}, Dims{random.Int(0, 3) ? 1 : 2});
    }
    for (TestTensor& x : in) launch.src.push_back(x.tensor());
    for (TestTensor& y : out) launch.dst.push_back(y.tensor());
    ASSERT_TRUE(launch.Run(program).ok());
    for (int64_t e = 0; e < n; e += 97) {
      std::vector<uint64_t> v;
      for (size_t i = 0; i < naive.size(); ++i) {
        const Naive& node = naive[i];
        switch (node.op) {
          case PointwiseOp::kLoad:
            v.push_back(static_cast<uint64_t>(in[i].GetInt(e)));
            break;
          case PointwiseOp::kConst:
            v.push_back(static_cast<uint64_t>(node.constant));
            break;
          case PointwiseOp::kAdd:
            v.push_back(v[node.a] + v[node.b]);
            break;
          case PointwiseOp::kSub:
            v.push_back(v[node.a] - v[node.b]);
            break;
          case PointwiseOp::kMul:
            v.push_back(v[node.a] * v[node.b]);
            break;
          default:
            v.push_back(v[node.a]);
            break;
        }
      }
      for (int k = 0; k < num_outputs; ++k) {
        ASSERT_EQ(out[k].GetInt(e), static_cast<int64_t>(v[stored[k]]))
            << "round " << round;
      }
    }
  }
}

TEST(PointwiseTest, ForeachWithScalarsPerGroup) {
  // y = x * s, one s per group or one for all.
  ProgramBuilder p;
  p.Store(p.Op(PointwiseOp::kMul, DType::kFloat32, p.Load(0, DType::kFloat32),
               p.Scalar(0, DType::kFloat32)));
  const Program program = std::move(p).Build();
  const int64_t sizes[] = {5, 0, 70000, 1, 300};
  for (bool per_group : {false, true}) {
    std::vector<TestTensor> x, y;
    Launch launch;
    launch.batch = 5;
    for (int g = 0; g < 5; ++g) {
      x.emplace_back(g == 3 ? DType::kFloat16 : DType::kFloat32,
                     Dims{sizes[g]});
      y.emplace_back(DType::kFloat32, Dims{sizes[g]},
                     Dims{g == 4 ? int64_t{3} : 1});
      Fill(x.back(), g);
      if (per_group || g == 0) launch.floats.push_back(g + 2);
    }
    for (int g = 0; g < 5; ++g) {
      launch.src.push_back(x[g].tensor());
      launch.dst.push_back(y[g].tensor());
    }
    if (per_group) launch.flags = kPerGroupScalars;
    ASSERT_TRUE(RunPointwiseForeach(launch.Make(program), Pool()).ok());
    for (int g = 0; g < 5; ++g) {
      for (int64_t i = 0; i < sizes[g]; ++i) {
        ASSERT_EQ(y[g].Get(i), x[g].Get(i) * (per_group ? g + 2 : 2));
      }
      EXPECT_TRUE(y[g].Untouched());
    }
  }
}

TEST(PointwiseTest, LaunchesThatDoNotFitAreRefused) {
  TestTensor y(DType::kFloat32, {4}), z(DType::kComplex64, {4});
  Launch launch;
  launch.dst = {y.tensor()};
  EXPECT_EQ(RunPointwise(launch.Make(Combine(DType::kFloat32)), Pool()).code(),
            absl::StatusCode::kInvalidArgument);
  launch.src = {y.tensor(), z.tensor()};
  EXPECT_EQ(RunPointwise(launch.Make(Combine(DType::kFloat32)), Pool()).code(),
            absl::StatusCode::kUnimplemented);
  launch.batch = 3;
  EXPECT_EQ(
      RunPointwiseForeach(launch.Make(Combine(DType::kFloat32)), Pool()).code(),
      absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tvarant::host
