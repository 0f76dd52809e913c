#include "daemon/runtime/cpu_sim_runtime.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "daemon/runtime/host_memory.h"
#include "daemon/runtime/self_check.h"

namespace tvarant {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMemory = 8 << 20;

class CpuSimRuntimeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto runtime = MakeCpuSimRuntime({.memory_bytes = kMemory});
    ASSERT_TRUE(runtime.ok()) << runtime.status();
    runtime_ = *std::move(runtime);
    auto stream = runtime_->CreateStream(0);
    ASSERT_TRUE(stream.ok());
    stream_ = *std::move(stream);
  }
  std::unique_ptr<DeviceBuffer> Buffer(uint64_t bytes) {
    auto buffer = runtime_->CreateBuffer(0, bytes);
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    return buffer.ok() ? *std::move(buffer) : nullptr;
  }

  std::unique_ptr<TvarantRuntime> runtime_;
  std::unique_ptr<DeviceStream> stream_;
};

TEST_F(CpuSimRuntimeTest, TellsWhatItIs) {
  const auto properties = runtime_->GetProperties(0);
  ASSERT_TRUE(properties.ok());
  EXPECT_EQ(properties->total_memory_bytes, kMemory);
  EXPECT_EQ(properties->compute_units,
            static_cast<uint32_t>(UsableProcessors()));
  EXPECT_EQ(properties->simt_width, 32u);
  for (const int wrong : {-1, 1}) {
    EXPECT_TRUE(
        absl::IsInvalidArgument(runtime_->GetProperties(wrong).status()));
    EXPECT_TRUE(
        absl::IsInvalidArgument(runtime_->CreateBuffer(wrong, 1).status()));
    EXPECT_TRUE(
        absl::IsInvalidArgument(runtime_->CreateStream(wrong).status()));
  }
}

TEST_F(CpuSimRuntimeTest, CountsMemory) {
  auto a = Buffer(kMemory / 2);
  EXPECT_EQ(runtime_->free_memory_bytes(0), kMemory / 2);
  const auto too_much = runtime_->CreateBuffer(0, kMemory / 2 + 1);
  EXPECT_TRUE(absl::IsResourceExhausted(too_much.status()));
  const std::string text(too_much.status().message());
  EXPECT_THAT(text, HasSubstr(std::to_string(kMemory / 2 + 1)));
  EXPECT_THAT(text, HasSubstr(std::to_string(kMemory / 2) + " bytes are free"));
  a.reset();
  EXPECT_EQ(runtime_->free_memory_bytes(0), kMemory);
  for (const uint64_t huge : {kMemory + 1, uint64_t{1} << 60, ~uint64_t{0}}) {
    EXPECT_TRUE(
        absl::IsResourceExhausted(runtime_->CreateBuffer(0, huge).status()));
    EXPECT_TRUE(
        absl::IsResourceExhausted(runtime_->CreateStaging(huge).status()));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(runtime_->CreateBuffer(0, 0).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(runtime_->CreateStaging(0).status()));
  EXPECT_EQ(runtime_->free_memory_bytes(0), kMemory);
}

TEST_F(CpuSimRuntimeTest, MovesBytes) {
  auto a = Buffer(100), b = Buffer(100);
  auto staging = runtime_->CreateStaging(64);
  ASSERT_TRUE(staging.ok());
  char text[6] = {};
  ASSERT_TRUE(stream_->Write(*a, 10, absl::MakeConstSpan("hello", 6)).ok());
  ASSERT_TRUE(stream_->CopyBytes(*b, 50, *a, 10, 6).ok());
  ASSERT_TRUE(stream_->CopyToStaging(**staging, 3, *b, 50, 6).ok());
  ASSERT_TRUE(stream_->CopyFromStaging(*a, 94, **staging, 3, 6).ok());
  ASSERT_TRUE(stream_->Read(*a, 94, absl::MakeSpan(text)).ok());
  EXPECT_STREQ(text, "hello");
}

TEST_F(CpuSimRuntimeTest, ChecksRanges) {
  auto a = Buffer(100), b = Buffer(100);
  auto staging = runtime_->CreateStaging(64);
  ASSERT_TRUE(staging.ok());
  char bytes[8] = {};
  const auto refused = [](const absl::Status& status) {
    return absl::IsInvalidArgument(status);
  };
  EXPECT_TRUE(refused(stream_->Write(*a, 93, bytes)));
  EXPECT_TRUE(refused(stream_->Write(*a, ~uint64_t{0}, bytes)));
  EXPECT_TRUE(refused(stream_->Read(*a, 101, absl::MakeSpan(bytes))));
  EXPECT_TRUE(refused(stream_->CopyBytes(*a, 0, *b, 0, 101)));
  EXPECT_TRUE(refused(stream_->CopyBytes(*a, 1, *b, ~uint64_t{0} - 1, 2)));
  EXPECT_TRUE(refused(stream_->CopyBytes(*a, 0, *a, 10, 11)));
  EXPECT_TRUE(refused(stream_->CopyToStaging(**staging, 60, *a, 0, 5)));
  EXPECT_TRUE(refused(stream_->CopyFromStaging(*a, 96, **staging, 0, 5)));
  // At the end, and nothing at all.
  EXPECT_TRUE(stream_->Write(*a, 92, bytes).ok());
  EXPECT_TRUE(stream_->Write(*a, 100, {}).ok());
  EXPECT_TRUE(stream_->CopyBytes(*a, 0, *a, 10, 10).ok());
  EXPECT_TRUE(stream_->CopyBytes(*a, 10, *a, 10, 20).ok());
}

TEST_F(CpuSimRuntimeTest, MemoryCanBeMappedAndIsSealed) {
  auto buffer = Buffer(4096);
  ASSERT_GE(buffer->shareable_fd(), 0);
  EXPECT_EQ(::fcntl(buffer->shareable_fd(), F_GET_SEALS),
            F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  char* mapped =
      static_cast<char*>(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE,
                                MAP_SHARED, buffer->shareable_fd(), 0));
  ASSERT_NE(mapped, MAP_FAILED);
  std::strcpy(mapped + 7, "shared");
  char text[7] = {};
  ASSERT_TRUE(stream_->Read(*buffer, 7, absl::MakeSpan(text)).ok());
  EXPECT_STREQ(text, "shared");
  buffer.reset();
  EXPECT_STREQ(mapped + 7, "");
  ::munmap(mapped, 4096);
}

TEST_F(CpuSimRuntimeTest, IsDoneAtOnceAndHasAClock) {
  bool done = false;
  stream_->WhenDone([&](absl::Status status) { done = status.ok(); });
  EXPECT_TRUE(done);
  const uint64_t first = stream_->SynchronizeAndGetTimeNs();
  EXPECT_GE(stream_->SynchronizeAndGetTimeNs(), first);
}

TEST_F(CpuSimRuntimeTest, ComputesRightInEachFamily) {
  const absl::Status status = SelfCheck(*runtime_, 0);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(runtime_->free_memory_bytes(0), kMemory);
}

TEST(MakeCpuSimRuntimeTest, RefusesMoreThanTheMachineHas) {
  EXPECT_TRUE(absl::IsInvalidArgument(
      MakeCpuSimRuntime({.memory_bytes = uint64_t{1} << 60}).status()));
  const auto runtime = MakeCpuSimRuntime({});
  ASSERT_TRUE(runtime.ok());
  EXPECT_LT((*runtime)->free_memory_bytes(0), UsableMemoryBytes());
  EXPECT_GT((*runtime)->free_memory_bytes(0), UsableMemoryBytes() / 2);
}

}  // namespace
}  // namespace tvarant
