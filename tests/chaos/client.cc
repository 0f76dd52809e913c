// A client that comes, works and checks what it gets, until its rounds are over
// or somebody kills it.
//
//   chaos_client ENDPOINT SEED ROUNDS
//
// Exit status: 0 all right, 3 a wrong result, 4 an error that nobody asked for.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/integration/daemon_fixture.h"

namespace tvarant::client {
namespace {

constexpr int kWrong = 3;
constexpr int kError = 4;

int Failed(const char* what, const Status& status) {
  // Others hold the memory now: the daemon says so, and the client goes on.
  if (status.code() == Code::kResourceExhausted) return 0;
  std::fprintf(stderr, "chaos_client: %s: %s\n", what,
               status.message().c_str());
  return kError;
}

// One round: memory, an upload, launches on a stream of its own, a check.
int Round(Session& session, std::mt19937& random) {
  const int64_t size = 1 + static_cast<int64_t>(random() % 30000);
  auto segment =
      session.CreateSegment(static_cast<uint64_t>(size) * 4, nullptr);
  if (!segment.ok()) return Failed("segment", segment.status());
  auto stream = session.CreateStream();
  if (!stream.ok()) return Failed("stream", stream.status());
  std::vector<float> values(static_cast<size_t>(size));
  for (float& value : values) value = static_cast<float>(random() % 1000);
  auto sent = stream.value()->Upload(segment.value(), 0, values.data(),
                                     values.size() * sizeof(float));
  if (!sent.ok()) return Failed("upload", sent.status());
  const uint64_t add = BinaryProgram(session, PointwiseOp::kAdd);
  const Vector x{segment.value(), size};
  const int times = static_cast<int>(random() % 8);
  for (int i = 0; i < times; ++i) {
    auto launched = LaunchBinary(*stream.value(), add, x, x, x);
    if (!launched.ok()) return Failed("launch", launched.status());
  }
  std::vector<float> got(values.size());
  const Status status = stream.value()->Download(segment.value(), 0, got.data(),
                                                 got.size() * sizeof(float));
  if (!status.ok()) return Failed("download", status);
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] != values[i] * static_cast<float>(1 << times)) {
      std::fprintf(stderr, "chaos_client: element %zu is %f, want %f\n", i,
                   got[i], values[i] * static_cast<float>(1 << times));
      return kWrong;
    }
  }
  // Some leave their memory to the session's end.
  if (random() % 4 == 0) return 0;
  const Status released = session.ReleaseSegments(&segment.value(), 1);
  return released.ok() ? 0 : Failed("release", released);
}

int Run(const std::string& endpoint, uint32_t seed, int rounds) {
  std::mt19937 random(seed);
  const Mode modes[] = {Mode::kMapped, Mode::kUnmapped, Mode::kMessages};
  auto session = Session::Connect(OptionsFor(modes[random() % 3], endpoint));
  if (!session.ok()) return Failed("connect", session.status());
  // Without a side connection a session ends with its last stream.
  auto first = session.value()->CreateStream();
  if (!first.ok()) return Failed("first stream", first.status());
  for (int i = 0; i < rounds; ++i) {
    if (const int failed = Round(*session.value(), random)) return failed;
  }
  return 0;
}

}  // namespace
}  // namespace tvarant::client

int main(int argc, char** argv) {
  if (argc != 4) return 64;
  return tvarant::client::Run(
      argv[1], static_cast<uint32_t>(std::atoi(argv[2])), std::atoi(argv[3]));
}
