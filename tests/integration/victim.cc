// A client to be killed: holds memory and keeps the device busy for ever.
//
//   victim MODE ENDPOINT
//
// Writes one byte to its output when it is at work.

#include <unistd.h>

#include <cstdint>
#include <string>

#include "tests/integration/daemon_fixture.h"

namespace tvarant::client {
namespace {

Mode ParseMode(const std::string& name) {
  for (const Mode mode : {Mode::kMapped, Mode::kUnmapped}) {
    if (ModeName(mode) == name) return mode;
  }
  return Mode::kMessages;
}

int Run(Mode mode, const std::string& endpoint) {
  auto session = Session::Connect(OptionsFor(mode, endpoint));
  if (!session.ok()) return 1;
  auto stream = session.value()->CreateStream();
  auto segment = session.value()->CreateSegment(100 << 20, nullptr);
  if (!stream.ok() || !segment.ok()) return 2;
  const uint64_t add = BinaryProgram(*session.value(), PointwiseOp::kAdd);
  const Vector x{segment.value(), 25 << 20};
  for (uint64_t i = 0;; ++i) {
    if (!LaunchBinary(*stream.value(), add, x, x, x).ok()) return 3;
    if (i == 10 && ::write(STDOUT_FILENO, "r", 1) != 1) return 4;
  }
}

}  // namespace
}  // namespace tvarant::client

int main(int argc, char** argv) {
  if (argc != 3) return 64;
  return tvarant::client::Run(tvarant::client::ParseMode(argv[1]), argv[2]);
}
