// Daemons and clients that die, sockets that are something else.

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/daemon_fixture.h"

namespace tvarant::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

class FaultTest : public DaemonTest {};
TVARANT_INSTANTIATE_MODES(FaultTest);

TEST_P(FaultTest, DaemonKilledDuringWork) {
  auto session = Connect();
  auto stream = Value(session->CreateStream());
  constexpr int64_t kSize = 1 << 20;
  const Vector x{Value(session->CreateSegment(kSize * 4, nullptr)), kSize};
  const uint64_t add = BinaryProgram(*session, PointwiseOp::kAdd);
  std::thread killer([&] {
    std::this_thread::sleep_for(milliseconds(100));
    ::kill(daemon_->pid(), SIGKILL);
  });
  Status status;
  auto begin = steady_clock::now();
  // Far more than can be done until then.
  for (int i = 0; i < 1000000 && status.ok(); ++i) {
    status = LaunchBinary(*stream, add, x, x, x).status();
  }
  if (status.ok()) status = stream->Synchronize();
  EXPECT_LT(steady_clock::now() - begin, milliseconds(2100 + 3000));
  killer.join();
  EXPECT_EQ(status.code(), Code::kUnavailable) << status.message();

  begin = steady_clock::now();
  EXPECT_EQ(stream->Synchronize().code(), Code::kUnavailable);
  float value;
  EXPECT_EQ(stream->Download(x.segment, 0, &value, 4).code(),
            Code::kUnavailable);
  EXPECT_EQ(session->CreateSegment(4096, nullptr).status().code(),
            Code::kUnavailable);
  EXPECT_EQ(session->CreateStream().status().code(), Code::kUnavailable);
  EXPECT_EQ(session->GetMemoryInfo().status().code(), Code::kUnavailable);
  EXPECT_FALSE(session->alive());
  EXPECT_EQ(session->death().code(), Code::kUnavailable);
  EXPECT_LT(steady_clock::now() - begin, milliseconds(2000));
}

TEST_P(FaultTest, WaitingThreadsAreReleased) {
  auto session = Connect();
  auto stream = Value(session->CreateStream());
  constexpr int64_t kSize = 4 << 20;
  const Vector x{Value(session->CreateSegment(kSize * 4, nullptr)), kSize};
  const uint64_t add = BinaryProgram(*session, PointwiseOp::kAdd);
  for (int i = 0; i < 2000; ++i) {
    ASSERT_TRUE(LaunchBinary(*stream, add, x, x, x).ok());
  }
  // Stopped, so that nothing ends the waits but its death.
  ::kill(daemon_->pid(), SIGSTOP);
  std::atomic<int> released{0};
  std::vector<std::thread> waiters;
  for (int i = 0; i < 3; ++i) {
    waiters.emplace_back([&] {
      EXPECT_EQ(stream->Synchronize().code(), Code::kUnavailable);
      ++released;
    });
  }
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_EQ(released.load(), 0);
  const auto begin = steady_clock::now();
  ::kill(daemon_->pid(), SIGKILL);
  for (std::thread& thread : waiters) thread.join();
  EXPECT_LT(steady_clock::now() - begin, milliseconds(2000));
}

TEST_P(FaultTest, FullQueueIsReleasedWhenTheDaemonDies) {
  auto session = Connect();
  auto stream = Value(session->CreateStream());
  const Vector x{Value(session->CreateSegment(4096, nullptr)), 16};
  const uint64_t add = BinaryProgram(*session, PointwiseOp::kAdd);
  EXPECT_STATUS_OK(stream->Synchronize());
  ::kill(daemon_->pid(), SIGSTOP);
  std::thread killer([&] {
    std::this_thread::sleep_for(milliseconds(700));
    ::kill(daemon_->pid(), SIGKILL);
  });
  Status status;
  uint64_t launched = 0;
  while (status.ok()) {
    status = LaunchBinary(*stream, add, x, x, x).status();
    ++launched;
  }
  killer.join();
  EXPECT_EQ(status.code(), Code::kUnavailable) << status.message();
  // Back-pressure: what waits for the daemon does not pile up without end.
  EXPECT_LT(launched, 10000000u);
}

TEST_P(FaultTest, OrderlyEndOfTheDaemon) {
  auto session = Connect();
  auto stream = Value(session->CreateStream());
  ::kill(daemon_->pid(), SIGTERM);
  const auto begin = steady_clock::now();
  while (session->alive() &&
         steady_clock::now() - begin < milliseconds(10000)) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_FALSE(session->alive());
  EXPECT_EQ(stream->Flush().code(), Code::kUnavailable);
  EXPECT_EQ(session->GetMemoryInfo().status().code(), Code::kUnavailable);
}

TEST_P(FaultTest, KilledClientGivesItsMemoryBack) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t victim = ::fork();
  if (victim == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::execl("tests/integration/victim", "victim", ModeName(GetParam()).c_str(),
            daemon_->endpoint().c_str(), nullptr);
    ::_exit(127);
  }
  ::close(ends[1]);
  char byte;
  ASSERT_EQ(::read(ends[0], &byte, 1), 1);
  ::close(ends[0]);

  auto session = Connect();
  auto stream = Value(session->CreateStream());
  EXPECT_LE(Value(session->GetMemoryInfo()).free_bytes, 156u << 20);
  ::kill(victim, SIGKILL);
  ::waitpid(victim, nullptr, 0);
  const auto begin = steady_clock::now();
  uint64_t free_bytes = 0;
  while (steady_clock::now() - begin < milliseconds(2000)) {
    free_bytes = Value(session->GetMemoryInfo()).free_bytes;
    if (free_bytes == 256u << 20) break;
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_EQ(free_bytes, 256u << 20);
  // The others go on.
  const uint64_t segment = Value(session->CreateSegment(4096, nullptr));
  float value = 5;
  ASSERT_TRUE(stream->Upload(segment, 0, &value, 4).ok());
  value = 0;
  EXPECT_STATUS_OK(stream->Download(segment, 0, &value, 4));
  EXPECT_EQ(value, 5);
}

TEST_P(FaultTest, ForkedChildIsRefused) {
  auto session = Connect();
  auto stream = Value(session->CreateStream());
  const uint64_t segment = Value(session->CreateSegment(4096, nullptr));
  const uint64_t add = BinaryProgram(*session, PointwiseOp::kAdd);
  const Vector x{segment, 4};
  ASSERT_TRUE(LaunchBinary(*stream, add, x, x, x).ok());
  for (const bool with_handler : {true, false}) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(10);  // a hang ends the child
      if (with_handler) session->ForkChild();
      const Status refused = LaunchBinary(*stream, add, x, x, x).status();
      float value;
      const bool right =
          refused.code() == Code::kFailedPrecondition &&
          refused.message().find("spawn") != std::string::npos &&
          stream->Synchronize().code() == Code::kFailedPrecondition &&
          stream->Download(segment, 0, &value, 4).code() ==
              Code::kFailedPrecondition &&
          session->CreateSegment(1, nullptr).status().code() ==
              Code::kFailedPrecondition &&
          session->CreateStream().status().code() ==
              Code::kFailedPrecondition &&
          session->GetMemoryInfo().status().code() ==
              Code::kFailedPrecondition &&
          !session->alive();
      // Destructors do nothing.
      stream.reset();
      session.reset();
      if (with_handler) daemon_->ForkChild();
      daemon_.reset();
      ::_exit(right ? 0 : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  // The parent is undisturbed.
  ASSERT_TRUE(LaunchBinary(*stream, add, x, x, x).ok());
  EXPECT_STATUS_OK(stream->Synchronize());
  EXPECT_TRUE(daemon_->running());
}

TEST_P(FaultTest, AForkedChildHasHostMemoryOfItsOwn) {
  if (!SharesMemory(GetParam())) GTEST_SKIP() << "no shared memory";
  auto session = Connect();
  const auto memory = Value(session->CreateHostMemory(1 << 20));
  char* data = static_cast<char*>(memory->data());
  data[5] = 7;
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(10);
    session->ForkChild();
    const bool right = data[5] == 7 && !memory->usable();
    data[5] = 9;
    ::_exit(right && data[5] == 9 ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(data[5], 7);
  EXPECT_TRUE(memory->usable());
}

TEST_P(FaultTest, SessionsEndWithoutNoise) {
  for (int i = 0; i < 50; ++i) {
    auto session = Connect();
    auto stream = Value(session->CreateStream());
    const uint64_t segment = Value(session->CreateSegment(4096, nullptr));
    const uint64_t add = BinaryProgram(*session, PointwiseOp::kAdd);
    const Vector x{segment, 1000};
    for (int k = 0; k < 100; ++k) {
      ASSERT_TRUE(LaunchBinary(*stream, add, x, x, x).ok());
    }
    if (i % 2 == 0) {
      session.reset();
    } else {
      stream.reset();
    }
  }
  auto session = Connect();
  const auto begin = steady_clock::now();
  while (Value(session->GetMemoryInfo()).free_bytes != 256u << 20 &&
         steady_clock::now() - begin < milliseconds(2000)) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_EQ(Value(session->GetMemoryInfo()).free_bytes, 256u << 20);
}

TEST(ExitTest, LiveSessionsDoNotDisturbTheEnd) {
  auto daemon = StartDaemon();
  ASSERT_NE(daemon, nullptr);
  for (int i = 0; i < 100; ++i) {
    const std::string command = "tests/integration/leaked_session " +
                                daemon->endpoint() +
                                (i % 2 == 0 ? " return" : " exit") + " 2>&1";
    FILE* pipe = ::popen(command.c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    std::string output;
    char buffer[256];
    while (size_t got = ::fread(buffer, 1, sizeof(buffer), pipe)) {
      output.append(buffer, got);
    }
    EXPECT_EQ(::pclose(pipe), 0) << i;
    EXPECT_EQ(output, "");
  }
}

}  // namespace
}  // namespace tvarant::client
