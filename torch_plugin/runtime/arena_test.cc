#include "torch_plugin/runtime/arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tvarant::torch_plugin {
namespace {

constexpr uint64_t kSlot = Arena::kSlotBytes;

TEST(Arena, ReservesAlignedDisjointRanges) {
  Arena& arena = Arena::Get();
  char* a = arena.Reserve(1);
  char* b = arena.Reserve(3 * kSlot);
  ASSERT_NE(a, nullptr);
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % kSlot, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b) % kSlot, 0u);
  EXPECT_TRUE(a + kSlot <= b || b + 3 * kSlot <= a);
  EXPECT_TRUE(arena.Contains(a));
  EXPECT_FALSE(arena.Contains(&arena));
  arena.Release(a, 1);
  arena.Release(b, 3 * kSlot);
  EXPECT_EQ(arena.Reserve(arena.size_bytes() + 1), nullptr);
  EXPECT_EQ(arena.Reserve(0), nullptr);
}

TEST(Arena, FindsPublishedSegmentsOnly) {
  Arena& arena = Arena::Get();
  ArenaSegment segment;
  segment.size_bytes = 3 * kSlot;
  segment.base = arena.Reserve(segment.size_bytes);
  EXPECT_EQ(arena.Find(segment.base), nullptr);
  arena.Publish(&segment);
  EXPECT_EQ(arena.Find(segment.base), &segment);
  EXPECT_EQ(arena.Find(segment.base + 3 * kSlot - 1), &segment);
  EXPECT_NE(arena.Find(segment.base + 3 * kSlot), &segment);
  EXPECT_EQ(arena.Find(nullptr), nullptr);
  arena.Release(segment.base, segment.size_bytes);
  EXPECT_EQ(arena.Find(segment.base), nullptr);
}

TEST(Arena, MergesReleasedRanges) {
  Arena& arena = Arena::Get();
  char* a = arena.Reserve(kSlot);
  char* b = arena.Reserve(kSlot);
  char* c = arena.Reserve(kSlot);
  arena.Release(a, kSlot);
  arena.Release(c, kSlot);
  arena.Release(b, kSlot);
  char* all = arena.Reserve(arena.size_bytes());
  EXPECT_NE(all, nullptr);
  arena.Release(all, arena.size_bytes());
}

TEST(ArenaDeathTest, ReleasedAndForkedMemoryCannotBeRead) {
  Arena& arena = Arena::Get();
  char* base = arena.Reserve(kSlot);
  ASSERT_EQ(mmap(base, kSlot, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            base);
  *base = 1;
  const pid_t child = fork();
  if (child == 0) {
    arena.ForkChild();
    *static_cast<volatile char*>(base) = 2;
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(*base, 1);
  arena.Release(base, kSlot);
  EXPECT_DEATH(*static_cast<volatile char*>(base) = 2, "");
}

}  // namespace
}  // namespace tvarant::torch_plugin
