#include "torch_plugin/runtime/connection.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>

namespace tvarant::torch_plugin {
namespace {

// Sets variables for one test.
class ConnectionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"TVARANT_ENDPOINT", "TVARANT_BACKEND",
                             "TVARANT_DAEMON", "TVARANT_MEMORY"}) {
      unsetenv(name);
    }
    setenv("PATH", "/nonexistent", 1);
    SetDaemonPath("");
  }
  static client::Status Error() { return Connect().status(); }
};

TEST(ParseBytes, TakesUnits) {
  EXPECT_EQ(ParseBytes("1"), 1u);
  EXPECT_EQ(ParseBytes("512M"), uint64_t{512} << 20);
  EXPECT_EQ(ParseBytes("8g"), uint64_t{8} << 30);
  EXPECT_EQ(ParseBytes("2KiB"), 2048u);
  EXPECT_EQ(ParseBytes("1TB"), uint64_t{1} << 40);
  for (const char* bad : {"", "M", "1X", "1Mx", "-1", "1.5G", " 1",
                          "99999999999999999999", "16777216T", "1G "}) {
    EXPECT_EQ(ParseBytes(bad), 0u) << bad;
  }
}

TEST_F(ConnectionTest, SaysWhatIsWrongWithAnEndpoint) {
  for (const char* bad :
       {"unix:", "tcp:host:1", "tcp://host", "foo:bar", "/run/x.sock",
        "unix:/a,", "unix:/a,foo:bar", "tcp://a:1,,tcp://b:1"}) {
    setenv("TVARANT_ENDPOINT", bad, 1);
    const client::Status status = Error();
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find("TVARANT_ENDPOINT"), std::string::npos);
    EXPECT_FALSE(MayConnect());
  }
}

TEST_F(ConnectionTest, SeveralEndpointsAreSeveralDevices) {
  EXPECT_EQ(EndpointCount(), 1);
  setenv("TVARANT_ENDPOINT", "unix:/nonexistent/a", 1);
  EXPECT_EQ(EndpointCount(), 1);
  setenv("TVARANT_ENDPOINT", "unix:/nonexistent/a,tcp://127.0.0.1:1", 1);
  EXPECT_EQ(EndpointCount(), 2);
  EXPECT_TRUE(MayConnect());
  EXPECT_NE(Connect(0).status().message().find("/nonexistent/a"),
            std::string::npos);
  EXPECT_NE(Connect(1).status().message().find("tcp://127.0.0.1:1"),
            std::string::npos);
  std::string many = "unix:/a";
  for (int i = 0; i < 16; ++i) many += ",unix:/a";
  setenv("TVARANT_ENDPOINT", many.c_str(), 1);
  EXPECT_NE(Error().message().find("at most 16"), std::string::npos);
}

TEST_F(ConnectionTest, SaysWhatIsWrongWithABackend) {
  setenv("TVARANT_BACKEND", "gpu", 1);
  EXPECT_NE(Error().message().find("use sim, opencl or fpga"),
            std::string::npos);
  EXPECT_EQ(Error().code(), client::Code::kInvalidArgument);
  // These are known: what is missing here is only the daemon.
  for (const char* known : {"sim", "opencl", "fpga"}) {
    setenv("TVARANT_BACKEND", known, 1);
    EXPECT_NE(Error().message().find("no tvarantd found"), std::string::npos)
        << known;
  }
}

TEST_F(ConnectionTest, SaysThatThereIsNoDaemon) {
  EXPECT_NE(Error().message().find("no tvarantd found"), std::string::npos);
  setenv("TVARANT_DAEMON", "/nonexistent/tvarantd", 1);
  EXPECT_NE(Error().message().find("/nonexistent/tvarantd"), std::string::npos);
  EXPECT_FALSE(MayConnect());
}

TEST_F(ConnectionTest, SaysWhatIsWrongWithASize) {
  setenv("TVARANT_DAEMON", "/bin/true", 1);
  setenv("TVARANT_MEMORY", "lots", 1);
  EXPECT_NE(Error().message().find("TVARANT_MEMORY"), std::string::npos);
  EXPECT_TRUE(MayConnect());
}

}  // namespace
}  // namespace tvarant::torch_plugin
