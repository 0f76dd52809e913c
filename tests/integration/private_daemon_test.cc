// A private daemon ends with its process, however that ends.

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "proto/base/unique_fd.h"
#include "tests/integration/daemon_fixture.h"

namespace tvarant::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

bool Exists(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0;
}

std::string FolderOf(const std::string& endpoint) {
  const std::string path = endpoint.substr(5);
  return path.substr(0, path.rfind('/'));
}

base::UniqueFd OpenPid(int pid) {
  return base::UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

// Whether the process ends in time.
bool Ends(const base::UniqueFd& pidfd, milliseconds timeout) {
  pollfd entry{pidfd.get(), POLLIN, 0};
  return ::poll(&entry, 1, static_cast<int>(timeout.count())) == 1;
}

class ParentTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    parent_ = ::fork();
    if (parent_ == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::close(ends[0]);
      ::close(ends[1]);
      ::execl("tests/integration/private_parent", "private_parent",
              DaemonBinary().c_str(), GetParam(), nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    std::string line;
    char byte;
    while (::read(ends[0], &byte, 1) == 1 && byte != '\n') line += byte;
    ::close(ends[0]);
    char endpoint[256];
    ASSERT_EQ(
        std::sscanf(line.c_str(), "%d %255s %d", &daemon_, endpoint, &child_),
        3)
        << line;
    folder_ = FolderOf(endpoint);
    daemon_fd_ = OpenPid(daemon_);
    ASSERT_TRUE(daemon_fd_.ok());
    ASSERT_TRUE(Exists(folder_));
  }

  void TearDown() override {
    if (child_ > 0) ::kill(child_, SIGKILL);
    if (parent_ > 0) {
      ::kill(parent_, SIGKILL);
      ::waitpid(parent_, nullptr, 0);
    }
  }

  pid_t parent_ = -1;
  int daemon_ = -1;
  int child_ = 0;
  std::string folder_;
  base::UniqueFd daemon_fd_;
};
INSTANTIATE_TEST_SUITE_P(Ways, ParentTest,
                         testing::Values("wait", "thread", "fork"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

TEST_P(ParentTest, LivesWhileTheProcessDoes) {
  // PR_SET_PDEATHSIG would have ended it with the thread that started it.
  EXPECT_FALSE(Ends(daemon_fd_, milliseconds(500)));
}

TEST_P(ParentTest, EndsWithAKilledProcess) {
  ::kill(parent_, SIGKILL);
  EXPECT_TRUE(Ends(daemon_fd_, milliseconds(2000)));
  EXPECT_FALSE(Exists(folder_)) << folder_;
}

TEST_P(ParentTest, CtrlCEndsTheProcessNotTheDaemonFirst) {
  // The terminal signals the foreground group; the daemon has a session of
  // its own.
  EXPECT_EQ(::getsid(daemon_), daemon_);
  EXPECT_NE(::getsid(parent_), daemon_);
  ::kill(parent_, SIGINT);
  EXPECT_TRUE(Ends(daemon_fd_, milliseconds(2000)));
}

TEST(PrivateDaemonTest, EndsWithItsObject) {
  auto daemon = StartDaemon();
  ASSERT_NE(daemon, nullptr);
  EXPECT_TRUE(daemon->running());
  const std::string folder = FolderOf(daemon->endpoint());
  struct stat info;
  ASSERT_EQ(::stat(folder.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  const int pid = daemon->pid();
  auto begin = steady_clock::now();
  daemon.reset();
  EXPECT_LT(steady_clock::now() - begin, milliseconds(3000));
  EXPECT_EQ(::kill(pid, 0), -1);
  EXPECT_FALSE(Exists(folder));
}

TEST(PrivateDaemonTest, AStoppedDaemonIsKilled) {
  auto daemon = StartDaemon();
  const int pid = daemon->pid();
  ::kill(pid, SIGSTOP);
  daemon.reset();
  EXPECT_EQ(::kill(pid, 0), -1);
}

TEST(PrivateDaemonTest, NoticesItsEnd) {
  auto daemon = StartDaemon();
  ::kill(daemon->pid(), SIGKILL);
  const auto begin = steady_clock::now();
  while (daemon->running() &&
         steady_clock::now() - begin < milliseconds(2000)) {
    std::this_thread::yield();
  }
  EXPECT_FALSE(daemon->running());
}

TEST(PrivateDaemonTest, TellsTheDaemonsOwnWords) {
  PrivateDaemonOptions options;
  options.binary = DaemonBinary();
  options.runtime = "warp";
  const auto daemon = PrivateDaemon::Start(options);
  EXPECT_EQ(daemon.status().code(), Code::kUnavailable);
  EXPECT_NE(daemon.status().message().find("warp"), std::string::npos)
      << daemon.status().message();
}

TEST(PrivateDaemonTest, ManyAtOnce) {
  std::thread threads[4];
  for (std::thread& thread : threads) {
    thread = std::thread([] {
      auto daemon = StartDaemon();
      ASSERT_NE(daemon, nullptr);
      auto session =
          Session::Connect(OptionsFor(Mode::kMapped, daemon->endpoint()));
      EXPECT_TRUE(session.ok()) << session.status().message();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tvarant::client
