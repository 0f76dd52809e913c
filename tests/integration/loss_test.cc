// Daemons that are killed in each phase of what a client does: one error, in
// time, and the next session works.
//
// TVARANT_LOSS_ROUNDS sets how often (default: once in each phase);
// TVARANT_MEASURE=1 prints how long the errors took.

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/daemon_fixture.h"
#include "tests/integration/tcp_daemon.h"

namespace tvarant::client {
namespace {

using std::chrono::duration;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr uint64_t kMemory = 256 << 20;
constexpr uint64_t kBytes = 8 << 20;
constexpr double kLimit_s = 2;

enum class Phase {
  kAllocate,
  kUpload,
  kLaunch,
  kWait,
  kRead,
  kDownload,
  kIdle
};
constexpr int kPhases = 7;

class LossTest : public testing::TestWithParam<Mode> {};
TVARANT_INSTANTIATE_MODES(LossTest);

// Does one thing again and again until it fails.
Status WorkUntilLost(Session& session, Stream& stream, Vector x, uint64_t add,
                     Phase phase) {
  std::vector<char> host(kBytes);
  const uint64_t large = x.segment;
  Status status;
  while (status.ok()) {
    switch (phase) {
      case Phase::kAllocate: {
        const Result<uint64_t> made = session.CreateSegment(4096, nullptr);
        status = made.status();
        if (status.ok()) status = session.ReleaseSegments(&made.value(), 1);
        break;
      }
      case Phase::kUpload:
        status = stream.Upload(large, 0, host.data(), kBytes).status();
        break;
      case Phase::kLaunch:
        status = LaunchBinary(stream, add, x, x, x).status();
        break;
      case Phase::kWait:
        for (int i = 0; i < 20 && status.ok(); ++i) {
          status = LaunchBinary(stream, add, x, x, x).status();
        }
        if (status.ok()) status = stream.Synchronize();
        break;
      case Phase::kRead:
        status = stream.Download(large, 0, host.data(), 4);
        break;
      case Phase::kDownload:
        status = stream.Download(large, 0, host.data(), kBytes);
        break;
      case Phase::kIdle:
        std::this_thread::sleep_for(milliseconds(1));
        if (!session.alive()) status = session.death();
        break;
    }
  }
  return status;
}

TEST_P(LossTest, KilledInEachPhaseAndBack) {
  const char* text = std::getenv("TVARANT_LOSS_ROUNDS");
  const int rounds = text == nullptr ? kPhases : std::atoi(text);
  int port = 0;
  double worst_s = 0;
  for (int round = 0; round < rounds; ++round) {
    const Phase phase = static_cast<Phase>(round % kPhases);
    // The same endpoint again, where that is for us to say.
    const auto daemon = GetParam() == Mode::kTcp ? StartTcpDaemon(kMemory, port)
                                                 : StartDaemon(kMemory);
    ASSERT_NE(daemon, nullptr);
    const std::string& endpoint = daemon->endpoint();
    if (GetParam() == Mode::kTcp) {
      port = std::stoi(endpoint.substr(endpoint.rfind(':') + 1));
    }
    auto session = Value(Session::Connect(OptionsFor(GetParam(), endpoint)));
    ASSERT_NE(session, nullptr) << "round " << round;
    auto stream = Value(session->CreateStream());
    const Vector x{Value(session->CreateSegment(kBytes, nullptr)),
                   int64_t{kBytes / 4}};
    const uint64_t add = BinaryProgram(*session, PointwiseOp::kAdd);
    steady_clock::time_point died;
    std::thread killer([&] {
      std::this_thread::sleep_for(milliseconds(30 + 7 * (round % 11)));
      died = steady_clock::now();
      ::kill(daemon->pid(), SIGKILL);
    });
    const Status status = WorkUntilLost(*session, *stream, x, add, phase);
    const auto raised = steady_clock::now();
    killer.join();
    const double took_s = duration<double>(raised - died).count();
    worst_s = std::max(worst_s, took_s);
    EXPECT_EQ(status.code(), Code::kUnavailable) << status.message();
    EXPECT_EQ(status.message().rfind("DEVICE_LOST: ", 0), 0u)
        << status.message();
    EXPECT_LE(took_s, kLimit_s) << "phase " << round % kPhases;
    // Later uses say the same, at once.
    const auto begin = steady_clock::now();
    float value;
    for (const Status& later :
         {stream->Download(1, 0, &value, 4), stream->Synchronize(),
          session->GetMemoryInfo().status(), session->death(),
          session->CreateSegment(4096, nullptr).status()}) {
      EXPECT_EQ(later.message().rfind("DEVICE_LOST: ", 0), 0u)
          << later.message();
    }
    EXPECT_LE(duration<double>(steady_clock::now() - begin).count(), 1);
  }
  if (const char* measure = std::getenv("TVARANT_MEASURE");
      measure != nullptr && std::string(measure) == "1") {
    std::printf("%s: %d deaths, the error after at most %.3f s\n",
                ModeName(GetParam()).c_str(), rounds, worst_s);
  }
}

}  // namespace
}  // namespace tvarant::client
