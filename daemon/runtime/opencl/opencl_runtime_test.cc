#include "daemon/runtime/opencl/opencl_runtime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "proto/ops/program.h"

namespace tvarant {
namespace {

using testing::HasSubstr;

constexpr int64_t kCount = 1000;

// A runtime, one stream, one buffer.
struct Bench {
  std::unique_ptr<TvarantRuntime> runtime;
  std::unique_ptr<DeviceStream> stream;
  std::unique_ptr<DeviceBuffer> buffer;

  explicit Bench(const std::string& cache = "") {
    OpenClOptions options;
    options.memory_bytes = 64 << 20;
    options.cache_folder = cache;
    auto made = MakeOpenClRuntime(options);
    EXPECT_TRUE(made.ok()) << made.status();
    if (!made.ok()) return;
    runtime = *std::move(made);
    stream = *runtime->CreateStream(0);
    buffer = *runtime->CreateBuffer(0, 1 << 20);
  }

  absl::Status Wait() {
    absl::Status result;
    stream->WhenDone([&](absl::Status status) { result = std::move(status); });
    return result;
  }

  // element i of the buffer's floats = op(elements i of a and b)
  absl::Status Run(const Program& program, DType dtype, double alpha = 1) {
    const int64_t sizes[] = {kCount}, strides[] = {1};
    const auto operand = [&](int64_t at) {
      return ResolvedOperand{.buffer = buffer.get(),
                             .offset_bytes = static_cast<uint64_t>(at),
                             .dtype = dtype,
                             .rank = 1,
                             .sizes = sizes,
                             .strides = strides};
    };
    const ResolvedOperand dst[] = {operand(0)};
    const ResolvedOperand src[] = {operand(1 << 18), operand(1 << 19)};
    ResolvedLaunch launch;
    launch.kernel = Kernel::kPointwise;
    launch.program = &program;
    launch.program_key = 1;
    launch.alpha = alpha;
    launch.dst = dst;
    launch.src = absl::MakeConstSpan(src).first(program.num_inputs());
    return stream->Launch(launch);
  }
};

Program Binary(PointwiseOp op, DType dtype) {
  ProgramBuilder builder;
  const int a = builder.Load(0, dtype), b = builder.Load(1, dtype);
  builder.Store(builder.Op(op, dtype, a, b));
  return std::move(builder).Build();
}

class Folder {
 public:
  Folder() {
    path_ = testing::TempDir() + "/cache-XXXXXX";
    EXPECT_NE(::mkdtemp(path_.data()), nullptr);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::vector<std::filesystem::path> Entries() const {
    std::vector<std::filesystem::path> entries;
    for (const auto& file : std::filesystem::directory_iterator(path_)) {
      if (file.path().extension() == ".tvk") entries.push_back(file.path());
    }
    return entries;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(OpenClRuntimeTest, AddsAndMoves) {
  Bench bench;
  std::vector<float> a(kCount, 1.5f), b(kCount, 2), y(kCount);
  const auto bytes = [](std::vector<float>& values) {
    return absl::MakeSpan(reinterpret_cast<char*>(values.data()),
                          values.size() * sizeof(float));
  };
  ASSERT_TRUE(bench.stream->Write(*bench.buffer, 1 << 18, bytes(a)).ok());
  ASSERT_TRUE(bench.stream->Write(*bench.buffer, 1 << 19, bytes(b)).ok());
  const Program add = Binary(PointwiseOp::kAdd, DType::kFloat32);
  ASSERT_TRUE(bench.Run(add, DType::kFloat32).ok());
  ASSERT_TRUE(bench.stream->Read(*bench.buffer, 0, bytes(y)).ok());
  ASSERT_TRUE(bench.Wait().ok());
  EXPECT_THAT(y, testing::Each(3.5f));

  auto staging = bench.runtime->CreateStaging(1 << 16);
  ASSERT_TRUE(staging.ok()) << staging.status();
  ASSERT_TRUE(bench.stream
                  ->CopyToStaging(**staging, 64, *bench.buffer, 0,
                                  kCount * sizeof(float))
                  .ok());
  ASSERT_TRUE(bench.stream
                  ->CopyFromStaging(*bench.buffer, 1 << 19, **staging, 64,
                                    kCount * sizeof(float))
                  .ok());
  ASSERT_TRUE(bench.Run(add, DType::kFloat32).ok());
  ASSERT_TRUE(bench.stream
                  ->CopyBytes(*bench.buffer, 1 << 17, *bench.buffer, 0,
                              kCount * sizeof(float))
                  .ok());
  ASSERT_TRUE(bench.stream->Read(*bench.buffer, 1 << 17, bytes(y)).ok());
  ASSERT_TRUE(bench.Wait().ok());
  EXPECT_THAT(y, testing::Each(5.0f));
}

TEST(OpenClRuntimeTest, MemoryIsZeroedAndCounted) {
  Bench bench;
  const uint64_t free = bench.runtime->free_memory_bytes(0);
  auto buffer = bench.runtime->CreateBuffer(0, (1 << 20) + 7);
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(free - bench.runtime->free_memory_bytes(0), (1u << 20) + 7);
  std::string bytes((1 << 20) + 7, 'x');
  ASSERT_TRUE(bench.stream->Read(**buffer, 0, absl::MakeSpan(bytes)).ok());
  ASSERT_TRUE(bench.Wait().ok());
  EXPECT_EQ(bytes, std::string(bytes.size(), '\0'));
  buffer->reset();
  EXPECT_EQ(bench.runtime->free_memory_bytes(0), free);
  EXPECT_EQ(bench.runtime->CreateBuffer(0, 1 << 30).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(OpenClRuntimeTest, AFaultIsReportedOnceAndTheStreamGoesOn) {
  Bench bench;
  const Program divide = Binary(PointwiseOp::kDivFloor, DType::kInt32);
  ASSERT_TRUE(
      bench.Run(Binary(PointwiseOp::kAdd, DType::kInt32), DType::kInt32).ok());
  ASSERT_TRUE(bench.Run(divide, DType::kInt32).ok());
  ASSERT_TRUE(bench.Run(divide, DType::kInt32).ok());
  const absl::Status status = bench.Wait();
  EXPECT_EQ(status.GetPayload(kFailedLaunch), absl::Cord("2"));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("ZeroDivisionError"));
  const Program add = Binary(PointwiseOp::kAdd, DType::kInt32);
  ASSERT_TRUE(bench.Run(add, DType::kInt32).ok());
  EXPECT_TRUE(bench.Wait().ok());
}

// Resident memory in bytes.
int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t pages = 0, resident = 0;
  statm >> pages >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

TEST(OpenClRuntimeTest, TenThousandLaunchesLeaveNothingBehind) {
  Bench bench;
  const Program add = Binary(PointwiseOp::kAdd, DType::kFloat32);
  const Program divide = Binary(PointwiseOp::kDivFloor, DType::kInt32);
  const auto run = [&](int times) {
    for (int i = 0; i < times; ++i) {
      ASSERT_TRUE(bench.Run(add, DType::kFloat32).ok());
      if (i % 16 == 0) {
        ASSERT_TRUE(bench.Run(divide, DType::kInt32).ok());
        EXPECT_FALSE(bench.Wait().ok());
      }
    }
    ASSERT_TRUE(bench.Wait().ok());
  };
  run(2000);
  const int64_t before = ResidentBytes();
  const uint64_t free = bench.runtime->free_memory_bytes(0);
  run(10000);
  EXPECT_EQ(bench.runtime->free_memory_bytes(0), free);
  EXPECT_LT(ResidentBytes() - before, 8 << 20);
}

// Damaged files of the cache are built anew, and never given to the driver.
TEST(OpenClRuntimeTest, TheCacheOutlivesTheRuntimeAndBearsDamage) {
  Folder folder;
  const Program add = Binary(PointwiseOp::kAdd, DType::kFloat32);
  const auto run = [&] {
    Bench bench(folder.path());
    EXPECT_TRUE(bench.Run(add, DType::kFloat32).ok());
    EXPECT_TRUE(bench.Wait().ok());
    return bench.runtime->kernel_cache();
  };
  KernelCacheInfo info = run();
  const uint64_t programs = info.compiled;
  EXPECT_GE(programs, 1u);
  EXPECT_EQ(info.entries.size(), programs);

  info = run();
  EXPECT_EQ(info.compiled, 0u);
  EXPECT_EQ(info.loaded, programs);

  for (const auto& entry : folder.Entries()) {
    std::fstream file(entry, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-3, std::ios::end);
    file.write("XXX", 3);
  }
  info = run();
  EXPECT_EQ(info.compiled, programs);
  EXPECT_EQ(info.loaded, 0u);
  EXPECT_EQ(run().loaded, programs);

  Bench bench(folder.path());
  EXPECT_EQ(bench.runtime->ClearKernelCache().entries, programs);
  EXPECT_TRUE(folder.Entries().empty());
}

// What the device has no kernel for is done all the same, and counted.
TEST(OpenClRuntimeTest, RunsOnTheHostWhatTheDeviceCant) {
  Bench bench;
  ProgramBuilder builder;
  const int a = builder.Load(0, DType::kFloat32);
  builder.Store(builder.Op(PointwiseOp::kBesselJ0, DType::kFloat32, a));
  ASSERT_TRUE(bench.Run(builder.program(), DType::kFloat32).ok());
  float first = 0;
  ASSERT_TRUE(
      bench.stream
          ->Read(*bench.buffer, 0,
                 absl::MakeSpan(reinterpret_cast<char*>(&first), sizeof(first)))
          .ok());
  ASSERT_TRUE(bench.Wait().ok());
  EXPECT_EQ(first, 1.0f);
  const std::vector<HostRun> runs = bench.runtime->host_runs();
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].kernel, Kernel::kPointwise);
  EXPECT_EQ(runs[0].count, 1u);
}

// PoCL's own files are a process's own, and don't outlive it for long.
TEST(OpenClRuntimeTest, PoclHasAFolderOfItsOwn) {
  Bench bench;
  const char* folder = std::getenv("POCL_CACHE_DIR");
  ASSERT_NE(folder, nullptr);
  EXPECT_THAT(folder, testing::EndsWith("/" + std::to_string(::getpid())));
}

TEST(OpenClRuntimeTest, WithoutAFolderThereIsNoCacheAndNoFailure) {
  Bench bench("/proc/no/such/folder");
  const Program add = Binary(PointwiseOp::kAdd, DType::kFloat32);
  ASSERT_TRUE(bench.Run(add, DType::kFloat32).ok());
  EXPECT_TRUE(bench.Wait().ok());
}

TEST(OpenClRuntimeTest, NobodyToWorkForMeansNoWork) {
  Bench bench;
  const std::atomic<bool> cancelled{true};
  bench.stream->set_cancelled(&cancelled);
  const Program add = Binary(PointwiseOp::kAdd, DType::kFloat32);
  EXPECT_EQ(bench.Run(add, DType::kFloat32).code(),
            absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace tvarant
