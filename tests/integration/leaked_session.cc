// Ends with a session, a stream and queued work still there, from main() or by
// exit() in another thread. Must end silently with status 0.
//
//   leaked_session ENDPOINT return|exit

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "tests/integration/daemon_fixture.h"

namespace tvarant::client {
namespace {

int Run(const std::string& endpoint, const std::string& how) {
  // Never destroyed.
  auto session = Session::Connect(OptionsFor(Mode::kMapped, endpoint));
  if (!session.ok()) return 1;
  auto stream = session.value()->CreateStream();
  auto segment = session.value()->CreateSegment(1 << 20, nullptr);
  if (!stream.ok() || !segment.ok()) return 2;
  (void)new std::shared_ptr<Session>(session.value());
  (void)new std::shared_ptr<Stream>(stream.value());
  const uint64_t add = BinaryProgram(*session.value(), PointwiseOp::kAdd);
  const Vector x{segment.value(), 1 << 18};
  for (int i = 0; i < 500; ++i) {
    if (!LaunchBinary(*stream.value(), add, x, x, x).ok()) return 3;
  }
  if (how == "exit") std::thread([] { std::exit(0); }).join();
  return 0;
}

}  // namespace
}  // namespace tvarant::client

int main(int argc, char** argv) {
  if (argc != 3) return 64;
  return tvarant::client::Run(argv[1], argv[2]);
}
