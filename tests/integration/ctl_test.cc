// tvarantctl against a real daemon.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>

#include "tests/integration/daemon_fixture.h"

namespace tvarant::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kBinary[] = "client/ctl/tvarantctl";

struct Outcome {
  int status = -1;
  std::string out;
  std::string err;
};

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

class CtlTest : public ::testing::Test {
 protected:
  CtlTest() {
    char pattern[] = "/tmp/tvcXXXXXX";
    folder_ = ::mkdtemp(pattern);
  }
  ~CtlTest() override {
    for (const char* name : {"out", "err", "trace.json", "man", "page"}) {
      ::unlink((folder_ + "/" + name).c_str());
    }
    ::rmdir(folder_.c_str());
  }

  // Runs a shell command with its output in files.
  Outcome Shell(const std::string& command) {
    Outcome outcome;
    const int status = std::system(("timeout 60 " + command + " >" + folder_ +
                                    "/out 2>" + folder_ + "/err </dev/null")
                                       .c_str());
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    outcome.out = Contents(folder_ + "/out");
    outcome.err = Contents(folder_ + "/err");
    return outcome;
  }
  Outcome Ctl(const std::string& arguments) {
    return Shell(std::string(kBinary) + " --endpoint " + daemon_->endpoint() +
                 " " + arguments);
  }
  // The output of a command with --json, if Python can read it.
  std::string Json(const std::string& arguments) {
    const Outcome outcome = Ctl("--json " + arguments);
    EXPECT_EQ(outcome.status, 0) << arguments << outcome.err;
    const Outcome read = Shell(
        "python3 -c 'import json,sys; "
        "[json.loads(line) for line in open(\"" +
        folder_ + "/out\")]' 2>&1 && cat " + folder_ + "/out");
    EXPECT_EQ(read.status, 0) << outcome.out << read.err;
    return outcome.out;
  }
  std::shared_ptr<Session> Connect() {
    return Value(
        Session::Connect(OptionsFor(Mode::kUnmapped, daemon_->endpoint())));
  }

  std::string folder_;
  std::unique_ptr<PrivateDaemon> daemon_ = StartDaemon(256 << 20);
};

TEST_F(CtlTest, ShowsStatusAndDevices) {
  const Outcome status = Ctl("status");
  EXPECT_EQ(status.status, 0) << status.err;
  EXPECT_THAT(status.out,
              HasSubstr("process " + std::to_string(daemon_->pid())));
  EXPECT_THAT(status.out, HasSubstr("of 256.0 MiB in use"));
  EXPECT_THAT(Json("status"), HasSubstr("\"total_bytes\": 268435456"));
  EXPECT_THAT(Ctl("devices").out, HasSubstr("256.0 MiB"));
  EXPECT_THAT(Json("devices"), HasSubstr("\"index\": 0"));
  EXPECT_THAT(Ctl("counters").out, HasSubstr("sessions_opened"));
  EXPECT_THAT(Json("counters"), HasSubstr("\"name\": \"launches\""));
  EXPECT_EQ(Ctl("clients").out, "no clients\n");
  EXPECT_EQ(Ctl("cache list").out, "no compiled kernels\n");
  EXPECT_EQ(Json("cache list"), "{\"entries\": []}\n");
  EXPECT_EQ(Ctl("cache clear").out, "0 kernels forgotten, 0 B\n");
}

TEST_F(CtlTest, ShowsAndEndsClients) {
  const std::shared_ptr<Session> session = Connect();
  Value(session->CreateSegment(8 << 20, nullptr));
  const Outcome clients = Ctl("clients --interval 0.1");
  EXPECT_EQ(clients.status, 0) << clients.err;
  EXPECT_THAT(clients.out, HasSubstr("MiB"));
  EXPECT_THAT(clients.out, HasSubstr(std::to_string(::getpid())));
  EXPECT_THAT(clients.out, HasSubstr("  ctl_test\n"));  // its command line
  const std::string json = Json("clients --interval 0.1");
  EXPECT_THAT(json, HasSubstr("\"client_name\": \"integration-test\""));
  EXPECT_THAT(json, HasSubstr("\"device_percent\": 0.000"));
  EXPECT_THAT(Json("top --count 2 --interval 0.1"),
              HasSubstr("\"clients\": {\"sessions\": [{"));
  EXPECT_THAT(Ctl("top --count 1 --interval 0.1").out, HasSubstr("DEVICE%"));

  EXPECT_EQ(Ctl("kill 999999").status, 1);
  EXPECT_EQ(Ctl("kill").status, 64);
  EXPECT_EQ(Ctl("kill --pid 1").status, 1);
  EXPECT_TRUE(session->alive());
  const std::string pid = std::to_string(::getpid());
  EXPECT_THAT(Json("kill --pid " + pid), HasSubstr("{\"ended\": ["));
  EXPECT_FALSE(session->GetMemoryInfo().ok());
  EXPECT_EQ(Ctl("clients --interval 0.1").out, "no clients\n");
}

TEST_F(CtlTest, BusyClientsHaveAShareOfTheDevice) {
  const std::shared_ptr<Session> session = Connect();
  const std::shared_ptr<Stream> stream = Value(session->CreateStream());
  const uint64_t segment = Value(session->CreateSegment(64 << 20, nullptr));
  const uint64_t add = BinaryProgram(*session, PointwiseOp::kAdd);
  std::atomic<bool> stop{false};
  std::thread worker([&] {
    const Vector all{segment, 4 << 20};
    while (!stop.load()) {
      for (int i = 0; i < 8; ++i) {
        Value(LaunchBinary(*stream, add, all, all, all));
      }
      EXPECT_TRUE(stream->Synchronize().ok());
    }
  });
  const std::string json = Json("clients --interval 0.5");
  stop.store(true);
  worker.join();
  const size_t at = json.find("\"device_percent\": ");
  ASSERT_NE(at, std::string::npos);
  EXPECT_GT(std::strtod(json.c_str() + at + 18, nullptr), 5.0) << json;
}

TEST_F(CtlTest, DrainsAndTakesClientsAgain) {
  std::shared_ptr<Session> session = Connect();
  EXPECT_EQ(Ctl("drain --wait 0.3").status, 1);  // one is there
  EXPECT_THAT(Ctl("status").out, HasSubstr("draining"));
  EXPECT_FALSE(
      Session::Connect(OptionsFor(Mode::kUnmapped, daemon_->endpoint())).ok());
  const Outcome doctor = Ctl("doctor");
  EXPECT_EQ(doctor.status, 1);
  EXPECT_THAT(doctor.out, HasSubstr("fix:        tvarantctl drain --cancel"));
  session.reset();
  EXPECT_THAT(Json("drain --wait 20"),
              HasSubstr("{\"draining\": true, \"sessions\": 0}"));
  EXPECT_THAT(Json("drain --cancel"), HasSubstr("\"draining\": false"));
  EXPECT_TRUE(Connect()->alive());
}

TEST_F(CtlTest, DoctorFindsNothingWrong) {
  const Outcome doctor = Ctl("doctor");
  EXPECT_EQ(doctor.status, 0) << doctor.out << doctor.err;
  for (const char* check : {"socket", "daemon", "version", "memory", "session",
                            "round trip", "bandwidth", "limits"}) {
    EXPECT_THAT(doctor.out, HasSubstr(check));
  }
  EXPECT_THAT(doctor.out, Not(HasSubstr("bad ")));
  EXPECT_THAT(Json("doctor"),
              HasSubstr("\"check\": \"bandwidth\", \"state\": "));
}

TEST_F(CtlTest, DoctorSaysWhatToDo) {
  const auto doctor = [this](const std::string& endpoint) {
    const Outcome outcome =
        Shell(std::string(kBinary) + " doctor --endpoint " + endpoint);
    EXPECT_EQ(outcome.status, 1) << outcome.out;
    return outcome.out;
  };
  EXPECT_THAT(doctor("unix:/tmp/no/such/socket"),
              HasSubstr("systemctl start tvarantd.socket"));
  EXPECT_THAT(doctor("http:x"), HasSubstr("unix:PATH"));
  std::ofstream(folder_ + "/out") << "";
  EXPECT_THAT(doctor("unix:" + folder_ + "/out"), HasSubstr("no socket"));
  const std::string endpoint = daemon_->endpoint();
  daemon_.reset();
  EXPECT_THAT(doctor(endpoint), HasSubstr("fix: "));
}

TEST_F(CtlTest, TracesClientDaemonAndDevice) {
  const std::shared_ptr<Session> session = Connect();
  const std::shared_ptr<Stream> stream = Value(session->CreateStream());
  const uint64_t segment = Value(session->CreateSegment(1 << 20, nullptr));
  const uint64_t add = BinaryProgram(*session, PointwiseOp::kAdd);
  std::atomic<bool> stop{false};
  std::thread worker([&] {
    const Vector some{segment, 1024};
    while (!stop.load()) {
      Value(LaunchBinary(*stream, add, some, some, some));
      EXPECT_TRUE(stream->Synchronize().ok());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  const std::string file = folder_ + "/trace.json";
  const Outcome trace = Ctl("trace --seconds 0.5 -o " + file);
  stop.store(true);
  worker.join();
  EXPECT_EQ(trace.status, 0) << trace.err;
  EXPECT_THAT(trace.out, HasSubstr(" events, 0 lost"));
  const std::string text = Contents(file);
  EXPECT_EQ(Shell("python3 -m json.tool " + file).status, 0);
  for (const char* part :
       {"\"send\"", "\"batch\"", "\"pointwise\"", "\"ph\": \"s\"",
        "\"ph\": \"t\"", "\"ph\": \"f\"", "client integration-test"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_EQ(Ctl("trace --seconds 0.1 -o /no/such/folder/t").status, 73);
}

TEST_F(CtlTest, FaultsHaveTheirExitStatus) {
  EXPECT_EQ(Ctl("no-such-command").status, 64);
  EXPECT_EQ(Ctl("status --interval").status, 64);
  EXPECT_EQ(Ctl("").status, 64);
  EXPECT_EQ(Ctl("--help").status, 0);
  EXPECT_EQ(Ctl("--version").status, 0);
  const Outcome absent =
      Shell(std::string(kBinary) + " --endpoint unix:/tmp/no/socket status");
  EXPECT_EQ(absent.status, 69);
  EXPECT_THAT(absent.err, HasSubstr("no tvarantd at unix:/tmp/no/socket"));
}

TEST_F(CtlTest, TheManualNamesEverythingAndReadsWell) {
  const std::string page = folder_ + "/page";
  ASSERT_EQ(
      Shell("sh -c '" + std::string(kBinary) + " man > " + page + "'").status,
      0);
  const Outcome rendered = Shell("groff -man -Tascii -ww -P-cbou " + page);
  EXPECT_EQ(rendered.status, 0);
  EXPECT_EQ(rendered.err, "");
  for (const char* word : {"status",
                           "devices",
                           "clients",
                           "top",
                           "kill",
                           "drain",
                           "cache list",
                           "cache clear",
                           "counters",
                           "doctor",
                           "trace",
                           "completion",
                           "--json",
                           "--endpoint unix:PATH",
                           "--interval SECONDS",
                           "--count N",
                           "--pid PID",
                           "--wait SECONDS",
                           "--cancel",
                           "-o, --output FILE",
                           "--seconds SECONDS",
                           "TVARANT_ENDPOINT"}) {
    EXPECT_THAT(rendered.out, HasSubstr(word));
  }
}

TEST_F(CtlTest, CompletesInBash) {
  const auto complete = [this](const std::string& words) {
    const Outcome outcome =
        Shell("bash -c 'set -e; source <(" + std::string(kBinary) +
              " completion bash); COMP_WORDS=(tvarantctl " + words +
              "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _tvarantctl; "
              "echo \"${COMPREPLY[*]}\"'");
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  };
  EXPECT_EQ(complete("sta"), "status\n");
  EXPECT_EQ(complete("c"), "clients cache counters completion\n");
  EXPECT_EQ(complete("cache c"), "clear\n");
  EXPECT_EQ(complete("trace --se"), "--seconds\n");
  EXPECT_EQ(complete("--json drain --w"), "--wait\n");
  EXPECT_EQ(complete("status --j"), "--json\n");
  EXPECT_EQ(complete("completion f"), "fish\n");
  EXPECT_THAT(Ctl("completion zsh").out, HasSubstr("bashcompinit"));
  EXPECT_THAT(Ctl("completion fish").out,
              HasSubstr("-l interval -d 'time over which"));
  EXPECT_EQ(Ctl("completion tcsh").status, 64);
}

}  // namespace
}  // namespace tvarant::client
