// A tvarantd process for a test, and sessions with it.
//
// Example:
//   class FooTest : public DaemonTest {};
//   TEST_P(FooTest, Works) {
//     auto session = Connect();
//     ...
//   }

#ifndef TVARANT_TESTS_INTEGRATION_DAEMON_FIXTURE_H_
#define TVARANT_TESTS_INTEGRATION_DAEMON_FIXTURE_H_

#include <sys/mman.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/client.h"
#include "gtest/gtest.h"
#include "tests/integration/tcp_daemon.h"

namespace tvarant::client {

// How a session reaches the device's memory.
enum class Mode {
  kMapped,    // segments mapped into the process
  kUnmapped,  // staging memory
  kMessages,  // gRPC alone, over the Unix socket
  kTcp,       // gRPC alone, over TCP with TLS
};

std::string ModeName(Mode mode);
inline bool SharesMemory(Mode mode) {
  return mode == Mode::kMapped || mode == Mode::kUnmapped;
}

// Path of the tvarantd that the build made, or $TVARANT_DAEMON.
std::string DaemonBinary();

// Fails the test if there is none.
std::unique_ptr<PrivateDaemon> StartDaemon(uint64_t memory_bytes = 256 << 20);

ConnectOptions OptionsFor(Mode mode, const std::string& endpoint);

// Page-aligned addresses without memory behind them.
class Reservation {
 public:
  explicit Reservation(uint64_t size_bytes);
  ~Reservation();
  char* data() const { return data_; }

 private:
  char* data_;
  uint64_t size_bytes_;
};

// A float32 operand, 1-D and dense.
struct Vector {
  uint64_t segment;
  int64_t size;
  int64_t stride = 1;

  Operand operand() const {
    return {.segment = segment,
            .offset_bytes = 0,
            .dtype = DType::kFloat32,
            .rank = 1,
            .sizes = &size,
            .strides = &stride};
  }
};

// dst = a op b, element by element.
uint64_t BinaryProgram(Session& session, PointwiseOp op);
Result<uint64_t> LaunchBinary(Stream& stream, uint64_t program, Vector dst,
                              Vector a, Vector b);

// dst[i] = table[index[i]]; index is int64. Fails with OUT_OF_RANGE for an
// index outside of the table.
Result<uint64_t> LaunchGather(Stream& stream, Vector dst, Vector table,
                              Vector index);

// One daemon for all tests of a suite would share its faults; each has its
// own.
class DaemonTest : public testing::TestWithParam<Mode> {
 protected:
  void SetUp() override {
    daemon_ =
        GetParam() == Mode::kTcp ? StartTcpDaemon(256 << 20) : StartDaemon();
    ASSERT_NE(daemon_, nullptr);
  }

  std::shared_ptr<Session> Connect();
  std::shared_ptr<Session> Connect(Mode mode);

  std::unique_ptr<PrivateDaemon> daemon_;
};

inline std::string ParamName(const testing::TestParamInfo<Mode>& info) {
  return ModeName(info.param);
}

#define TVARANT_INSTANTIATE_MODES(Suite)                                   \
  INSTANTIATE_TEST_SUITE_P(Modes, Suite,                                   \
                           testing::Values(Mode::kMapped, Mode::kUnmapped, \
                                           Mode::kMessages, Mode::kTcp),   \
                           ParamName)

// The value of a Result, or a failed test and a default value.
template <typename T>
T Value(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status().message();
  return std::move(result.value());
}

#define EXPECT_STATUS_OK(expr)                                    \
  do {                                                            \
    const ::tvarant::client::Status tvarant_status = (expr);      \
    EXPECT_TRUE(tvarant_status.ok()) << tvarant_status.message(); \
  } while (false)

}  // namespace tvarant::client

#endif  // TVARANT_TESTS_INTEGRATION_DAEMON_FIXTURE_H_
