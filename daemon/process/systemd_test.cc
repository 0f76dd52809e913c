#include "daemon/process/systemd.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "daemon/process/notify_socket.h"
#include "daemon/process/ready_notifier.h"
#include "daemon/process/watchdog.h"
#include "proto/base/mutex.h"

namespace tvarant {
namespace {

using namespace std::chrono_literals;

void Set(const char* name, const std::string& value) {
  ::setenv(name, value.c_str(), 1);
}

class SystemdTest : public ::testing::Test {
 protected:
  SystemdTest() {
    char pattern[] = "/tmp/tvnXXXXXX";
    folder_ = ::mkdtemp(pattern);
  }
  ~SystemdTest() override {
    ::unlink((folder_ + "/n").c_str());
    ::rmdir(folder_.c_str());
    for (const char* name : {"LISTEN_PID", "LISTEN_FDS", "NOTIFY_SOCKET",
                             "WATCHDOG_USEC", "WATCHDOG_PID"}) {
      ::unsetenv(name);
    }
  }
  std::string folder_;
};

TEST_F(SystemdTest, NoSocketsWithoutSystemd) {
  const auto sockets = TakeActivatedSockets();
  ASSERT_TRUE(sockets.ok());
  EXPECT_TRUE(sockets->empty());
}

TEST_F(SystemdTest, SocketsOfAnotherProcessAreNotTaken) {
  Set("LISTEN_PID", "1");
  Set("LISTEN_FDS", "1");
  const auto sockets = TakeActivatedSockets();
  ASSERT_TRUE(sockets.ok());
  EXPECT_TRUE(sockets->empty());
  EXPECT_EQ(::getenv("LISTEN_FDS"), nullptr);
}

TEST_F(SystemdTest, TakesItsSocketsOnce) {
  // Descriptor 3 may be the test's own: in a child.
  const pid_t child = ::fork();
  if (child == 0) {
    int ends[2];
    if (::pipe(ends) != 0) ::_exit(1);
    const int read_end = ::fcntl(ends[0], F_DUPFD, 10);
    const int write_end = ::fcntl(ends[1], F_DUPFD, 10);
    ::dup2(read_end, 3);
    ::dup2(write_end, 4);
    Set("LISTEN_PID", std::to_string(::getpid()));
    Set("LISTEN_FDS", "2");
    const auto sockets = TakeActivatedSockets();
    const bool good = sockets.ok() && sockets->size() == 2 &&
                      (*sockets)[0].get() == 3 && (*sockets)[1].get() == 4 &&
                      (::fcntl(3, F_GETFD) & FD_CLOEXEC) != 0;
    const auto again = TakeActivatedSockets();
    ::_exit(good && again.ok() && again->empty() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(SystemdTest, NonsenseIsRefused) {
  const std::string self = std::to_string(::getpid());
  for (const char* count : {"x", "-1", "65", "99999999999999999999", ""}) {
    Set("LISTEN_PID", self);
    Set("LISTEN_FDS", count);
    EXPECT_FALSE(TakeActivatedSockets().ok()) << count;
  }
  Set("LISTEN_PID", "me");
  Set("LISTEN_FDS", "1");
  EXPECT_FALSE(TakeActivatedSockets().ok());
}

TEST_F(SystemdTest, StatesArrive) {
  EXPECT_FALSE(NotifySystemd("READY=1"));
  NotifySocket socket(folder_ + "/n");
  Set("NOTIFY_SOCKET", socket.path());
  EXPECT_TRUE(NotifySystemd("WATCHDOG=1"));
  EXPECT_EQ(socket.Receive(1s), "WATCHDOG=1");
  ReadyNotifier notifier(-1);
  notifier.Ready();
  EXPECT_THAT(socket.Receive(1s), ::testing::StartsWith("READY=1\n"));
  notifier.Stopping(20s);
  EXPECT_EQ(socket.Receive(1s), "STOPPING=1\nEXTEND_TIMEOUT_USEC=20000000");
  Set("NOTIFY_SOCKET", "relative");
  EXPECT_FALSE(NotifySystemd("READY=1"));
  Set("NOTIFY_SOCKET", "/" + std::string(300, 'x'));
  EXPECT_FALSE(NotifySystemd("READY=1"));
}

TEST_F(SystemdTest, WatchdogTimeoutIsForThisProcess) {
  EXPECT_FALSE(WatchdogTimeout().has_value());
  Set("WATCHDOG_USEC", "2500");
  EXPECT_EQ(WatchdogTimeout(), 2500us);
  Set("WATCHDOG_PID", std::to_string(::getpid()));
  EXPECT_EQ(WatchdogTimeout(), 2500us);
  Set("WATCHDOG_PID", "1");
  EXPECT_FALSE(WatchdogTimeout().has_value());
  ::unsetenv("WATCHDOG_PID");
  for (const char* value : {"0", "-5", "soon"}) {
    Set("WATCHDOG_USEC", value);
    EXPECT_FALSE(WatchdogTimeout().has_value()) << value;
  }
}

TEST_F(SystemdTest, AStuckProbeStopsTheSignsOfLife) {
  NotifySocket socket(folder_ + "/n");
  Set("NOTIFY_SOCKET", socket.path());
  base::Mutex gate;
  Watchdog watchdog(20ms, [&gate] { base::MutexLock lock(gate); });
  EXPECT_EQ(socket.Receive(5s), "WATCHDOG=1");
  EXPECT_EQ(socket.Receive(5s), "WATCHDOG=1");
  {
    base::MutexLock lock(gate);
    // One may have passed the gate before it closed, and those that wait.
    while (!socket.Receive(100ms).empty()) {
    }
    EXPECT_EQ(socket.Receive(300ms), "");
  }
  EXPECT_EQ(socket.Receive(5s), "WATCHDOG=1");
}

TEST_F(SystemdTest, NoWatchdogNoProbe) {
  bool probed = false;
  {
    Watchdog watchdog(std::nullopt, [&probed] { probed = true; });
  }
  EXPECT_FALSE(probed);
}

}  // namespace
}  // namespace tvarant
