#include "client/shared_mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "client/fork_guard.h"
#include "gtest/gtest.h"
#include "proto/base/unique_fd.h"

namespace tvarant::client {
namespace {

base::UniqueFd Memory(uint64_t size_bytes, int seals) {
  base::UniqueFd fd(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(size_bytes)), 0);
  EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}

TEST(SharedMappingTest, MapsWhereAsked) {
  const base::UniqueFd fd = Memory(8192, F_SEAL_SHRINK | F_SEAL_GROW);
  void* range =
      ::mmap(nullptr, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const Result<void*> mapped = MapSealed(fd.get(), 8192, range);
  ASSERT_TRUE(mapped.ok()) << mapped.status().message();
  EXPECT_EQ(mapped.value(), range);
  std::memset(range, 7, 8192);
  char byte = 0;
  EXPECT_EQ(::pread(fd.get(), &byte, 1, 8191), 1);
  EXPECT_EQ(byte, 7);
  ::munmap(range, 8192);
}

TEST(SharedMappingTest, RefusesWhatCouldKillUs) {
  // A file that may shrink under the mapping.
  const base::UniqueFd unsealed = Memory(8192, F_SEAL_GROW);
  EXPECT_EQ(MapSealed(unsealed.get(), 8192, nullptr).status().code(),
            Code::kInternal);
  // A file that is shorter than it should be.
  const base::UniqueFd small = Memory(4096, F_SEAL_SHRINK);
  EXPECT_EQ(MapSealed(small.get(), 8192, nullptr).status().code(),
            Code::kInternal);
  // No memfd at all.
  const base::UniqueFd file(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(MapSealed(file.get(), 4096, nullptr).status().code(),
            Code::kInternal);
  EXPECT_FALSE(MapSealed(-1, 4096, nullptr).ok());
}

TEST(SharedMappingTest, ChildrenDoNotInheritIt) {
  const base::UniqueFd fd = Memory(4096, F_SEAL_SHRINK);
  const SharedMapping mapping(MapSealed(fd.get(), 4096, nullptr).value(), 4096);
  const pid_t child = ::fork();
  if (child == 0) {
    // EFAULT: the address is not there.
    unsigned char state;
    ::_exit(::mincore(mapping.data(), 4096, &state) == 0 ? 1 : 0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(ForkGuardTest, TellsParentFromChild) {
  ForkGuard guard;
  EXPECT_FALSE(guard.in_child());
  const pid_t child = ::fork();
  if (child == 0) ::_exit(guard.in_child() ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(guard.in_child());
  guard.MarkChild();
  EXPECT_TRUE(guard.in_child());
}

}  // namespace
}  // namespace tvarant::client
