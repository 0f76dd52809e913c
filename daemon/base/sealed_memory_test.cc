#include "daemon/base/sealed_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <utility>

namespace tvarant {
namespace {

TEST(SealedMemoryTest, IsZeroedWritableAndOfWholePages) {
  auto memory = SealedMemory::Create("test", 5000);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->size_bytes() % ::sysconf(_SC_PAGESIZE), 0u);
  ASSERT_GE(memory->size_bytes(), 5000u);
  for (uint64_t i = 0; i < memory->size_bytes(); ++i) {
    ASSERT_EQ(memory->data()[i], 0);
  }
  std::memset(memory->data(), 7, memory->size_bytes());
}

TEST(SealedMemoryTest, NobodyCanChangeItsSize) {
  auto memory = SealedMemory::Create("test", 4096);
  ASSERT_TRUE(memory.ok());
  EXPECT_NE(::ftruncate(memory->fd(), 0), 0);
  EXPECT_NE(::ftruncate(memory->fd(), 1 << 20), 0);
  EXPECT_NE(::fcntl(memory->fd(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  EXPECT_EQ(::fcntl(memory->fd(), F_GET_SEALS),
            F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
}

TEST(SealedMemoryTest, AFormerSharerKeepsNothing) {
  auto memory = SealedMemory::Create("test", 4096);
  ASSERT_TRUE(memory.ok());
  std::strcpy(memory->data(), "secret");
  char* other = static_cast<char*>(
      ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, memory->fd(), 0));
  ASSERT_NE(other, MAP_FAILED);
  EXPECT_STREQ(other, "secret");
  *memory = SealedMemory();
  EXPECT_STREQ(other, "");
  ::munmap(other, 4096);
}

TEST(SealedMemoryTest, StateMayOutliveItsOwner) {
  auto memory = SealedMemory::Create("test", 4096, SealedMemory::AtEnd::kKeep);
  ASSERT_TRUE(memory.ok());
  std::strcpy(memory->data(), "dead");
  char* other = static_cast<char*>(
      ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, memory->fd(), 0));
  ASSERT_NE(other, MAP_FAILED);
  *memory = SealedMemory();
  EXPECT_STREQ(other, "dead");
  ::munmap(other, 4096);
}

TEST(SealedMemoryTest, MovesWithoutCopying) {
  auto made = SealedMemory::Create("test", 4096);
  ASSERT_TRUE(made.ok());
  char* const data = made->data();
  SealedMemory moved = *std::move(made);
  EXPECT_EQ(moved.data(), data);
  SealedMemory assigned;
  assigned = std::move(moved);
  EXPECT_EQ(assigned.data(), data);
  data[0] = 1;
}

TEST(SealedMemoryTest, RefusesWhatCannotBe) {
  EXPECT_TRUE(
      absl::IsInvalidArgument(SealedMemory::Create("test", 0).status()));
  for (const uint64_t bytes :
       {uint64_t{1} << 62, ~uint64_t{0}, ~uint64_t{0} - 4000}) {
    EXPECT_TRUE(
        absl::IsResourceExhausted(SealedMemory::Create("test", bytes).status()))
        << bytes;
  }
}

}  // namespace
}  // namespace tvarant
