#include "daemon/server/launch_resolver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace tvarant {
namespace {

using ::testing::HasSubstr;

class FakeBuffer : public DeviceBuffer {
 public:
  explicit FakeBuffer(uint64_t size_bytes) : DeviceBuffer(size_bytes) {}
};

class LaunchResolverTest : public testing::Test {
 protected:
  LaunchResolverTest() {
    ProgramBuilder p;
    const int a = p.Load(0, DType::kFloat32);
    p.Store(p.Op(PointwiseOp::kRelu, DType::kFloat32, a));
    relu_ = std::move(p).Build();
  }

  // y = relu(x) for float32 vectors of `size`, through a record and back.
  absl::StatusOr<ResolvedLaunch> Relu(Operand y, Operand x) {
    LaunchParams params;
    params.kernel = Kernel::kPointwise;
    params.program = 7;
    params.dst = &y;
    params.num_dst = 1;
    params.src = &x;
    params.num_src = 1;
    return Resolve(params);
  }

  absl::StatusOr<ResolvedLaunch> Resolve(const LaunchParams& params) {
    std::string bytes;
    EXPECT_TRUE(RecordWriter(&bytes).Launch(params));
    words_.assign(bytes.size() / 8, 0);
    std::memcpy(words_.data(), bytes.data(), bytes.size());
    EXPECT_STREQ(ParseRecord(reinterpret_cast<const char*>(words_.data()),
                             bytes.size(), &record_),
                 nullptr);
    return resolver_.Resolve(
        record_.launch,
        [this](uint64_t handle) -> DeviceBuffer* {
          const auto found = buffers_.find(handle);
          return found == buffers_.end() ? nullptr : &found->second;
        },
        [this](uint64_t handle) -> LaunchResolver::ProgramRef {
          if (handle != 7) return {};
          return {.program = &relu_, .key = 99};
        });
  }

  Operand Vector(uint64_t segment, uint64_t offset_bytes, int64_t size,
                 int64_t stride = 1) {
    extents_.push_back({size, stride});
    return {.segment = segment,
            .offset_bytes = offset_bytes,
            .dtype = DType::kFloat32,
            .rank = 1,
            .sizes = &extents_.back()[0],
            .strides = &extents_.back()[1]};
  }

  std::map<uint64_t, FakeBuffer> buffers_ = [] {
    std::map<uint64_t, FakeBuffer> buffers;
    buffers.emplace(1, FakeBuffer(64));
    buffers.emplace(2, FakeBuffer(100));
    return buffers;
  }();
  Program relu_;
  std::deque<std::array<int64_t, 2>> extents_;
  std::vector<uint64_t> words_;
  ParsedRecord record_;
  LaunchResolver resolver_;
};

TEST_F(LaunchResolverTest, ResolvesHandles) {
  const auto launch = Relu(Vector(1, 0, 16), Vector(2, 36, 16));
  ASSERT_TRUE(launch.ok()) << launch.status();
  EXPECT_EQ(launch->kernel, Kernel::kPointwise);
  EXPECT_EQ(launch->program, &relu_);
  EXPECT_EQ(launch->program_key, 99u);
  ASSERT_EQ(launch->dst.size(), 1u);
  EXPECT_EQ(launch->dst[0].buffer, &buffers_.at(1));
  EXPECT_EQ(launch->dst[0].sizes[0], 16);
  ASSERT_EQ(launch->src.size(), 1u);
  EXPECT_EQ(launch->src[0].buffer, &buffers_.at(2));
  EXPECT_EQ(launch->src[0].offset_bytes, 36u);
  EXPECT_EQ(launch->src[0].dtype, DType::kFloat32);
}

TEST_F(LaunchResolverTest, KeepsEveryElementInBounds) {
  EXPECT_TRUE(Relu(Vector(1, 0, 16), Vector(2, 36, 16)).ok());
  EXPECT_EQ(Relu(Vector(1, 4, 16), Vector(2, 0, 16)).status().message(),
            "pointwise: dst 0 passes the end of its segment: offset 4 + 64 "
            "bytes of 64");
  EXPECT_FALSE(Relu(Vector(1, 0, 16), Vector(2, 40, 16)).ok());
  EXPECT_FALSE(Relu(Vector(1, 64, 1), Vector(2, 0, 1)).ok());
  EXPECT_FALSE(Relu(Vector(1, UINT64_MAX - 3, 1), Vector(2, 0, 1)).ok());
  // Strided: the last element counts, not the number of elements.
  EXPECT_TRUE(Relu(Vector(1, 0, 4, 5), Vector(2, 0, 4)).ok());
  EXPECT_FALSE(Relu(Vector(1, 4, 4, 5), Vector(2, 0, 4)).ok());
  // Broadcast: one element in memory.
  EXPECT_TRUE(Relu(Vector(1, 0, 16), Vector(2, 96, 16, 0)).ok());
  EXPECT_FALSE(
      Relu(Vector(1, 0, int64_t{1} << 40), Vector(2, 0, int64_t{1} << 40))
          .ok());
}

TEST_F(LaunchResolverTest, RefusesUnknownHandles) {
  EXPECT_EQ(Relu(Vector(1, 0, 4), Vector(5, 0, 4)).status().message(),
            "pointwise: src 0 names the unknown segment 5");
  EXPECT_FALSE(Relu(Vector(0, 0, 4), Vector(2, 0, 4)).ok());
  LaunchParams params;
  params.kernel = Kernel::kPointwise;
  params.program = 8;
  const Operand y = Vector(1, 0, 4), x = Vector(2, 0, 4);
  params.dst = &y;
  params.num_dst = 1;
  params.src = &x;
  params.num_src = 1;
  EXPECT_EQ(Resolve(params).status().message(),
            "pointwise: program is not defined");
}

TEST_F(LaunchResolverTest, RefusesOffsetsThatAreNotAligned) {
  EXPECT_EQ(Relu(Vector(1, 2, 4), Vector(2, 0, 4)).status().message(),
            "pointwise: dst 0 has byte offset 2, want a multiple of 4");
}

TEST_F(LaunchResolverTest, EmptyTensorsNeedNoPlace) {
  auto launch = Relu(Vector(0, 3, 0), Vector(1, 1000, 0));
  ASSERT_TRUE(launch.ok()) << launch.status();
  EXPECT_EQ(launch->dst[0].buffer, nullptr);
  EXPECT_EQ(launch->dst[0].dtype, DType::kFloat32);
  EXPECT_EQ(launch->dst[0].rank, 1);
  EXPECT_EQ(launch->src[0].buffer, &buffers_.at(1));
  EXPECT_EQ(launch->src[0].offset_bytes, 0u);
  EXPECT_THAT(
      std::string(Relu(Vector(0, 0, 0), Vector(9, 0, 0)).status().message()),
      HasSubstr("unknown segment 9"));
}

TEST_F(LaunchResolverTest, PassesAbsentOperands) {
  int64_t sizes[3] = {1, 2, 2}, strides[3] = {4, 2, 1};
  const auto matrix = [&](uint64_t offset_bytes) {
    return Operand{.segment = 1,
                   .offset_bytes = offset_bytes,
                   .dtype = DType::kFloat32,
                   .rank = 3,
                   .sizes = sizes,
                   .strides = strides};
  };
  const Operand c = matrix(0);
  const Operand src[3] = {matrix(16), matrix(32), Operand{}};
  LaunchParams params;
  params.kernel = Kernel::kGemm;
  params.batch = 1;
  params.m = params.n = params.k = 2;
  params.alpha = 0.5;
  params.dst = &c;
  params.num_dst = 1;
  params.src = src;
  params.num_src = 3;
  const auto launch = Resolve(params);
  ASSERT_TRUE(launch.ok()) << launch.status();
  EXPECT_EQ(launch->src[2].dtype, DType::kInvalid);
  EXPECT_EQ(launch->src[2].buffer, nullptr);
  EXPECT_EQ(launch->alpha, 0.5);
  EXPECT_EQ(launch->n, 2);
}

TEST_F(LaunchResolverTest, AppliesTheRulesOfTheKernel) {
  EXPECT_EQ(Relu(Vector(1, 0, 4), Vector(2, 0, 5)).status().message(),
            "pointwise: src 0 has sizes [5], want [4]");
}

}  // namespace
}  // namespace tvarant
