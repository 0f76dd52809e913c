#include "daemon/metrics/metrics.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <set>
#include <string>

#include "proto/base/unique_fd.h"

namespace tvarant {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class FixedSource : public MetricsSource {
 public:
  MetricValues ReadMetrics() override {
    MetricValues values;
    values.counters[static_cast<size_t>(Counter::kLaunches)] = 7;
    values.counters[static_cast<size_t>(Counter::kDeviceBusyNs)] = 2500000000;
    values[Gauge::kSessions] = 1;
    values.sessions.push_back({4, 1000, "a\"b\n", {4096, 0.5, 9, 0}});
    ReadProcessGauges(&values);
    return values;
  }
};

// The answer to a GET, with its head.
std::string Get(int port, const std::string& path) {
  base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                sizeof(address)) != 0) {
    return "";
  }
  const timeval timeout{10, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  const std::string request =
      "GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  if (::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) {
    return "";
  }
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t got = ::recv(fd.get(), buffer, sizeof(buffer), 0);
    if (got <= 0) return text;
    text.append(buffer, static_cast<size_t>(got));
  }
}

TEST(MetricsTest, NamesAreUniqueAndFollowPrometheus) {
  std::set<std::string> names;
  for (const MetricInfo& info : MetricTable()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_EQ(info.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"),
              std::string::npos)
        << info.name;
    const bool total = info.name.size() > 6 &&
                       info.name.substr(info.name.size() - 6) == "_total";
    EXPECT_EQ(total, info.kind == MetricKind::kCounter) << info.name;
    EXPECT_FALSE(info.doc.empty()) << info.name;
  }
  EXPECT_EQ(names.count("tvarant_device_busy_seconds_total"), 1u);
}

TEST(MetricsTest, OneReadingIsServed) {
  FixedSource source;
  const auto endpoint = MetricsEndpoint::Start("127.0.0.1:0", source);
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  const std::string text = Get((*endpoint)->port(), "/metrics");
  EXPECT_THAT(text, HasSubstr("200 OK"));
  EXPECT_THAT(text, HasSubstr("# TYPE tvarant_launches_total counter\n"
                              "tvarant_launches_total 7\n"));
  EXPECT_THAT(text, HasSubstr("tvarant_device_busy_seconds_total 2.5\n"));
  EXPECT_THAT(text, HasSubstr("tvarant_sessions 1\n"));
  // What a client calls itself can't break out of its label.
  EXPECT_THAT(text, HasSubstr("tvarant_session_memory_bytes{session=\"4\","
                              "uid=\"1000\",client=\"a\\\"b\\n\"} 4096\n"));
  EXPECT_THAT(text, HasSubstr("tvarant_session_busy_seconds_total{session="));
  EXPECT_THAT(text, Not(HasSubstr("tvarant_resident_bytes 0\n")));
  EXPECT_THAT(text, Not(HasSubstr("tvarant_threads 0\n")));
  EXPECT_THAT(text, Not(HasSubstr("tvarant_open_descriptors 0\n")));
  for (const MetricInfo& info : MetricTable()) {
    EXPECT_THAT(text, HasSubstr("# HELP " + info.name + " " + info.doc));
  }
  EXPECT_THAT(Get((*endpoint)->port(), "/other"), HasSubstr("404"));
}

TEST(MetricsTest, OnlyThisMachine) {
  for (const char* good :
       {"127.0.0.1:9464", "127.1.2.3:0", "[::1]:1", "localhost:65535"}) {
    EXPECT_TRUE(CheckMetricsAddress(good).ok()) << good;
  }
  for (const char* bad :
       {"", ":", "9464", ":9464", "0.0.0.0:9464", "[::]:9464", "*:1",
        "10.0.0.1:1", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536",
        "127.0.0.1:x", "127.0.0.1,0.0.0.0:80", "127.evil.example:1"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CheckMetricsAddress(bad))) << bad;
    FixedSource source;
    EXPECT_FALSE(MetricsEndpoint::Start(bad, source).ok()) << bad;
  }
}

TEST(MetricsTest, AnAddressInUseIsAnError) {
  FixedSource source;
  const auto first = MetricsEndpoint::Start("127.0.0.1:0", source);
  ASSERT_TRUE(first.ok());
  const std::string address = "127.0.0.1:" + std::to_string((*first)->port());
  EXPECT_TRUE(
      absl::IsUnavailable(MetricsEndpoint::Start(address, source).status()));
}

}  // namespace
}  // namespace tvarant
