#include "client/ctl/doctor.h"

#include <grp.h>
#include <pwd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "client/client.h"
#include "client/ctl/admin_client.h"
#include "client/ctl/output.h"
#include "client/endpoint.h"
#include "tvarant_version.h"

namespace tvarant::client {
namespace {

using Clock = std::chrono::steady_clock;
using State = Finding::State;

constexpr uint64_t kBulkBytes = 32 << 20;
constexpr int kRoundTrips = 100;
constexpr int kCopies = 4;
// Worse than these, something is in the way.
constexpr double kSlowRoundTripUs = 2000;
constexpr double kSlowCopyBytesPerSecond = 200e6;
constexpr rlim_t kFewDescriptors = 256;
// What the plugin would like to reserve of the address space.
constexpr rlim_t kWantedAddressSpace = rlim_t{1} << 40;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string UserName(uid_t uid) {
  const passwd* entry = ::getpwuid(uid);
  return entry != nullptr ? entry->pw_name : std::to_string(uid);
}

std::string GroupName(gid_t gid) {
  const group* entry = ::getgrgid(gid);
  return entry != nullptr ? entry->gr_name : std::to_string(gid);
}

class Doctor {
 public:
  Doctor(std::string endpoint, std::chrono::milliseconds timeout)
      : endpoint_(std::move(endpoint)), timeout_(timeout) {}

  std::vector<Finding> Run() && {
    if (CheckSocket() && CheckDaemon() && CheckSession()) {
      CheckRoundTrip();
      CheckBandwidth();
    }
    CheckLimits();
    return std::move(findings_);
  }

 private:
  bool Add(const char* check, State state, std::string detail,
           std::string fix = "") {
    findings_.push_back({check, state, std::move(detail), std::move(fix)});
    return state != State::kBad;
  }

  bool CheckSocket() {
    const Result<Endpoint> endpoint = Endpoint::Parse(endpoint_);
    if (!endpoint.ok()) {
      return Add("endpoint", State::kBad, endpoint.status().message(),
                 "give --endpoint or TVARANT_ENDPOINT as unix:PATH");
    }
    if (endpoint.value().is_tcp()) {
      return Add("endpoint", State::kBad,
                 endpoint_ + " is on another machine, perhaps",
                 "run the doctor beside the daemon, with --endpoint unix:PATH");
    }
    const std::string& path = endpoint.value().path();
    struct stat info;
    if (::stat(path.c_str(), &info) != 0) {
      if (errno == EACCES) {
        return Add(
            "socket", State::kBad, "may not look into the folder of " + path,
            "open the folder for others: chmod o+x $(dirname " + path + ")");
      }
      return Add("socket", State::kBad, path + ": " + std::strerror(errno),
                 "start the daemon: systemctl start tvarantd.socket, or "
                 "tvarantd --listen unix:" +
                     path);
    }
    if (!S_ISSOCK(info.st_mode)) {
      return Add("socket", State::kBad, path + " is no socket",
                 "remove that file and restart the daemon, or give another "
                 "endpoint");
    }
    char mode[8];
    std::snprintf(mode, sizeof(mode), "%04o", info.st_mode & 07777u);
    const std::string owner =
        UserName(info.st_uid) + ":" + GroupName(info.st_gid) + " " + mode;
    if (::access(path.c_str(), R_OK | W_OK) != 0) {
      return Add(
          "socket", State::kBad,
          path + " (" + owner + ") is closed to user " + UserName(::geteuid()),
          "sudo usermod -aG " + GroupName(info.st_gid) + " " +
              UserName(::geteuid()) + ", then log in again");
    }
    return Add("socket", State::kGood, path + " (" + owner + ")");
  }

  bool CheckDaemon() {
    Result<std::unique_ptr<AdminClient>> client =
        AdminClient::Connect(endpoint_, timeout_);
    if (!client.ok()) {
      return Add("daemon", State::kBad, client.status().message(),
                 "start it: systemctl restart tvarantd, and see journalctl -u "
                 "tvarantd");
    }
    const Result<v1::GetStatusResponse> status = client.value()->Call(
        &AdminClient::Stub::GetStatus, v1::GetStatusRequest());
    if (!status.ok()) {
      return Add("daemon", State::kBad, status.status().message(),
                 "see whether another program listens there, and journalctl -u "
                 "tvarantd");
    }
    const v1::GetStatusResponse& daemon = status.value();
    Add("daemon", State::kGood,
        "process " + std::to_string(daemon.pid()) + ", up " +
            Duration(daemon.uptime_seconds()) + ", " +
            std::to_string(daemon.sessions()) + " sessions");
    if (daemon.daemon_version() != kVersion) {
      Add("version", State::kWarning,
          "tvarantd is " + daemon.daemon_version() + ", tvarantctl is " +
              kVersion,
          "install the same version on both sides, if something does not work");
    } else {
      Add("version", State::kGood, daemon.daemon_version());
    }
    if (daemon.draining()) {
      return Add("drain", State::kBad, "the daemon takes no new sessions",
                 "tvarantctl drain --cancel");
    }
    if (daemon.free_bytes() < daemon.total_bytes() / 20) {
      Add("memory", State::kWarning,
          Bytes(static_cast<double>(daemon.free_bytes())) + " of " +
              Bytes(static_cast<double>(daemon.total_bytes())) + " free",
          "see who has it: tvarantctl clients");
    } else {
      Add("memory", State::kGood,
          Bytes(static_cast<double>(daemon.free_bytes())) + " of " +
              Bytes(static_cast<double>(daemon.total_bytes())) + " free");
    }
    return true;
  }

  bool CheckSession() {
    ConnectOptions options;
    options.endpoint = endpoint_;
    options.client_name = "tvarantctl doctor";
    options.connect_timeout_ms = static_cast<int>(timeout_.count());
    Result<std::shared_ptr<Session>> session = Session::Connect(options);
    if (!session.ok()) {
      const bool limit = session.status().code() == Code::kResourceExhausted;
      return Add("session", State::kBad, session.status().message(),
                 limit
                     ? "end sessions (tvarantctl kill), or raise the limit in "
                       "tvarantd.conf"
                     : "install the same version on both sides");
    }
    session_ = session.value();
    Add("session", State::kGood,
        session_->properties().name + ", memory " +
            (session_->memory_is_mapped() ? "mapped into clients"
                                          : "reached by copies"));
    Result<std::shared_ptr<Stream>> stream = session_->CreateStream();
    if (!stream.ok()) return Failed("session", stream.status());
    stream_ = stream.value();
    const Result<uint64_t> segment =
        session_->CreateSegment(kBulkBytes, nullptr);
    if (!segment.ok()) return Failed("memory", segment.status());
    segment_ = segment.value();
    return true;
  }

  bool Failed(const char* check, const Status& status) {
    return Add(check, State::kBad, status.message(),
               "see journalctl -u tvarantd");
  }

  // A launch and the wait for its result, as `.item()` would.
  void CheckRoundTrip() {
    const Operand dst = Floats();
    const int64_t pattern[2] = {0, 0};
    LaunchParams fill{.kernel = Kernel::kFill};
    fill.dst = &dst;
    fill.num_dst = 1;
    fill.ints = pattern;
    fill.num_ints = 2;
    std::vector<double> times;
    for (int i = 0; i < kRoundTrips; ++i) {
      const Clock::time_point start = Clock::now();
      const Result<uint64_t> launched = stream_->Launch(fill);
      if (!launched.ok()) {
        Failed("round trip", launched.status());
        return;
      }
      float value;
      const Status read = stream_->Download(segment_, 0, &value, sizeof(value));
      if (!read.ok()) {
        Failed("round trip", read);
        return;
      }
      times.push_back(1e6 * SecondsSince(start));
    }
    std::nth_element(times.begin(), times.begin() + kRoundTrips / 2,
                     times.end());
    const double median = times[kRoundTrips / 2];
    const bool slow = median > kSlowRoundTripUs;
    Add("round trip", slow ? State::kWarning : State::kGood,
        Number(median, 0) + " us (median of launch and read)",
        slow ? "see who keeps the processors or the device busy: tvarantctl top"
             : "");
  }

  void CheckBandwidth() {
    std::vector<char> bytes(kBulkBytes, 'x'), back(kBulkBytes);
    double up = 1e9, down = 1e9;
    for (int i = 0; i < kCopies; ++i) {
      Clock::time_point start = Clock::now();
      const Result<uint64_t> sent =
          stream_->Upload(segment_, 0, bytes.data(), bytes.size());
      Status status = sent.ok() ? stream_->Synchronize() : sent.status();
      up = std::min(up, SecondsSince(start));
      start = Clock::now();
      if (status.ok()) {
        status = stream_->Download(segment_, 0, back.data(), back.size());
      }
      down = std::min(down, SecondsSince(start));
      if (!status.ok()) {
        Failed("bandwidth", status);
        return;
      }
    }
    if (back != bytes) {
      Add("bandwidth", State::kBad, "what was read is not what was written",
          "report this: the device or the transfer is faulty");
      return;
    }
    const double size = static_cast<double>(kBulkBytes);
    const bool slow = size / std::max(up, down) < kSlowCopyBytesPerSecond;
    Add("bandwidth", slow ? State::kWarning : State::kGood,
        "to the device " + Bytes(size / up) + "/s, back " + Bytes(size / down) +
            "/s",
        slow ? "see who keeps the processors busy: top" : "");
  }

  void CheckLimits() {
    rlimit limit;
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
        limit.rlim_cur < kFewDescriptors) {
      Add("limits", State::kWarning,
          "a process may have " + std::to_string(limit.rlim_cur) +
              " descriptors",
          "ulimit -n 1024");
      return;
    }
    if (::getrlimit(RLIMIT_AS, &limit) == 0 &&
        limit.rlim_cur < kWantedAddressSpace) {
      Add("limits", State::kWarning,
          "the address space is limited to " +
              Bytes(static_cast<double>(limit.rlim_cur)) +
              ": PyTorch processes can use only part of a large device",
          "ulimit -v unlimited");
      return;
    }
    Add("limits", State::kGood, "descriptors and address space suffice");
  }

  Operand Floats() const {
    static constexpr int64_t kOne[1] = {1};
    Operand operand;
    operand.segment = segment_;
    operand.dtype = DType::kFloat32;
    operand.rank = 1;
    operand.sizes = kOne;
    operand.strides = kOne;
    return operand;
  }

  const std::string endpoint_;
  const std::chrono::milliseconds timeout_;
  std::vector<Finding> findings_;
  std::shared_ptr<Session> session_;
  std::shared_ptr<Stream> stream_;
  uint64_t segment_ = 0;
};

}  // namespace

std::vector<Finding> Diagnose(const std::string& endpoint,
                              std::chrono::milliseconds timeout) {
  return Doctor(endpoint, timeout).Run();
}

const char* NameOf(Finding::State state) {
  switch (state) {
    case State::kGood:
      return "good";
    case State::kWarning:
      return "warning";
    case State::kBad:
      return "bad";
  }
  return "";
}

}  // namespace tvarant::client
