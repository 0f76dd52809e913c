#include "proto/base/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace tvarant::base {
namespace {

bool IsOpen(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

int OpenNull() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

TEST(UniqueFdTest, ClosesAtTheEnd) {
  int number;
  {
    UniqueFd fd(OpenNull());
    ASSERT_TRUE(fd.ok());
    number = fd.get();
  }
  EXPECT_FALSE(IsOpen(number));
  EXPECT_FALSE(UniqueFd().ok());
}

TEST(UniqueFdTest, MovesAndReleases) {
  UniqueFd a(OpenNull());
  const int number = a.get();
  UniqueFd b(std::move(a));
  EXPECT_FALSE(a.ok());  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(b.get(), number);
  UniqueFd c(OpenNull());
  const int replaced = c.get();
  c = std::move(b);
  EXPECT_EQ(c.get(), number);
  EXPECT_FALSE(IsOpen(replaced));
  EXPECT_EQ(c.release(), number);
  EXPECT_TRUE(IsOpen(number));
  EXPECT_FALSE(c.ok());
  ::close(number);
}

TEST(UniqueFdTest, KeepsErrno) {
  UniqueFd fd(OpenNull());
  errno = EPERM;
  fd.reset();
  EXPECT_EQ(errno, EPERM);
}

}  // namespace
}  // namespace tvarant::base
