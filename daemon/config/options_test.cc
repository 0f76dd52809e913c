#include "daemon/config/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "daemon/config/value.h"

namespace tvarant {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ErrorOf(const std::vector<std::string>& args) {
  const auto options = ParseArguments(args);
  return options.ok() ? "" : std::string(options.status().message());
}

std::string ConfigErrorOf(const std::string& text) {
  Options options;
  return std::string(ParseConfig(text, "f.conf", &options).message());
}

TEST(OptionsTest, Defaults) {
  const auto options = ParseArguments({});
  ASSERT_TRUE(options.ok());
  EXPECT_THAT(options->listen, ElementsAre());
  EXPECT_EQ(options->runtime, "sim");
  EXPECT_EQ(options->memory_bytes, 0u);
  EXPECT_EQ(options->ready_fd, -1);
}

TEST(OptionsTest, BothWaysOfWritingAValue) {
  const auto options = ParseArguments(
      {"--listen", "unix:/a", "--listen=unix:/b", "--memory=2GiB",
       "--socket-mode", "600", "--exit-with-parent", "17", "--ready-fd=3"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->listen, ElementsAre("unix:/a", "unix:/b"));
  EXPECT_EQ(options->memory_bytes, uint64_t{2} << 30);
  EXPECT_EQ(options->socket_mode, 0600u);
  EXPECT_EQ(options->exit_with_parent, 17);
  EXPECT_EQ(options->ready_fd, 3);
}

TEST(OptionsTest, FaultsNameTheWord) {
  EXPECT_THAT(ErrorOf({"--bogus"}), HasSubstr("--bogus"));
  EXPECT_THAT(ErrorOf({"stray"}), HasSubstr("stray"));
  EXPECT_THAT(ErrorOf({"--"}), HasSubstr("--"));
  EXPECT_THAT(ErrorOf({"--memory"}), HasSubstr("needs a value"));
  EXPECT_THAT(ErrorOf({"--memory", "lots"}), HasSubstr("lots"));
  EXPECT_THAT(ErrorOf({"--memory=1"}), HasSubstr("less than"));
  EXPECT_THAT(ErrorOf({"--max-sessions=0"}), HasSubstr("--max-sessions"));
  EXPECT_THAT(ErrorOf({"--max-sessions=-1"}), HasSubstr("not a number"));
  EXPECT_THAT(ErrorOf({"--max-sessions=99999999999999999999"}),
              HasSubstr("not a number"));
  EXPECT_THAT(ErrorOf({"--socket-mode=888"}), HasSubstr("octal"));
  EXPECT_THAT(ErrorOf({"--help=yes"}), HasSubstr("takes no value"));
  EXPECT_THAT(ErrorOf({"--ready-fd=3000000000"}), HasSubstr("--ready-fd"));
  EXPECT_THAT(ErrorOf({"--config", "/no/such/file"}),
              HasSubstr("/no/such/file"));
}

TEST(OptionsTest, Sizes) {
  EXPECT_EQ(*ParseSize("0"), 0u);
  EXPECT_EQ(*ParseSize("4096"), 4096u);
  EXPECT_EQ(*ParseSize("3K"), 3072u);
  EXPECT_EQ(*ParseSize("512 MiB"), uint64_t{512} << 20);
  EXPECT_EQ(*ParseSize("1GB"), uint64_t{1} << 30);
  EXPECT_EQ(*ParseSize("2TiB"), uint64_t{2} << 40);
  for (const char* bad : {"", "GiB", "1X", "1GiBs", "-1", "1.5GiB",
                          "99999999999TiB", "18446744073709551616"}) {
    EXPECT_FALSE(ParseSize(bad).ok()) << bad;
  }
}

TEST(OptionsTest, ConfigFile) {
  Options options;
  ASSERT_TRUE(ParseConfig("# comment\n"
                          "\n"
                          "listen = unix:/a\r\n"
                          "  listen=unix:/b  # and this\n"
                          "memory = 1GiB\n"
                          "max_sessions = 3",
                          "f.conf", &options)
                  .ok());
  EXPECT_THAT(options.listen, ElementsAre("unix:/a", "unix:/b"));
  EXPECT_EQ(options.memory_bytes, uint64_t{1} << 30);
  EXPECT_EQ(options.limits[Limit::kSessions], 3u);
}

TEST(OptionsTest, ConfigFaultsNameTheLine) {
  EXPECT_THAT(ConfigErrorOf("memory = 1GiB\nbogus = 1\n"),
              HasSubstr("f.conf:2: unknown key \"bogus\""));
  EXPECT_THAT(ConfigErrorOf("\n\nnonsense"), HasSubstr("f.conf:3"));
  EXPECT_THAT(ConfigErrorOf("memory = much"), HasSubstr("f.conf:1: memory"));
  EXPECT_THAT(ConfigErrorOf("memory ="), HasSubstr("f.conf:1"));
  EXPECT_THAT(ConfigErrorOf("max-sessions = 1"), HasSubstr("unknown key"));
  EXPECT_THAT(ConfigErrorOf("ready_fd = 1"), HasSubstr("unknown key"));
  EXPECT_THAT(ConfigErrorOf("memory = 1G\nmemory = 2G"), HasSubstr("twice"));
}

TEST(OptionsTest, SectionsOfUsers) {
  Options options;
  const absl::Status status = ParseConfig(
      "max_bytes_per_user = 1GiB\n"
      "[user alice]\n"
      "weight = 4\n"
      "priority = high  # interactive\n"
      "max_bytes_per_user = 8GiB\n"
      "[user remote:bob]\n"
      "max_streams_per_user = 2\n",
      "f.conf", &options);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(options.limits[Limit::kUserBytes], uint64_t{1} << 30);
  ASSERT_EQ(options.users.size(), 2u);
  EXPECT_EQ(options.users[0].name, "alice");
  EXPECT_EQ(options.users[0].weight, 4u);
  EXPECT_TRUE(options.users[0].high_priority);
  EXPECT_EQ(options.users[0].limits.at(Limit::kUserBytes), uint64_t{8} << 30);
  EXPECT_EQ(options.users[1].name, "remote:bob");
  EXPECT_EQ(options.users[1].weight, 1u);
  EXPECT_FALSE(options.users[1].high_priority);
  EXPECT_EQ(options.users[1].limits.size(), 1u);

  EXPECT_THAT(ConfigErrorOf("[alice]"), HasSubstr("[user NAME]"));
  EXPECT_THAT(ConfigErrorOf("["), HasSubstr("[user NAME]"));
  EXPECT_THAT(ConfigErrorOf("[user ]"), HasSubstr("f.conf:1"));
  EXPECT_THAT(ConfigErrorOf("[user a]\n[user a]"), HasSubstr("f.conf:2"));
  EXPECT_THAT(ConfigErrorOf("[user a]\nlisten = unix:/x"),
              HasSubstr("unknown key \"listen\" of a user"));
  EXPECT_THAT(ConfigErrorOf("[user a]\nmax_sessions = 1"),
              HasSubstr("unknown key"));  // of the daemon
  EXPECT_THAT(ConfigErrorOf("[user a]\nweight = 0"), HasSubstr("1 to 1000"));
  EXPECT_THAT(ConfigErrorOf("[user a]\npriority = top"),
              HasSubstr("neither normal nor high"));
  EXPECT_THAT(ConfigErrorOf("[user a]\nweight = 2\nweight = 3"),
              HasSubstr("twice"));
  EXPECT_THAT(ConfigErrorOf("max_streams_per_session = 65"),
              HasSubstr("1 to 64"));
}

TEST(OptionsTest, NamesWhatNeedsARestart) {
  Options before, after;
  EXPECT_TRUE(NeedRestart(before, after).empty());
  after.limits[Limit::kUserBytes] = 1;
  after.users.push_back({.name = "a"});
  EXPECT_TRUE(NeedRestart(before, after).empty());
  after.runtime = "opencl";
  after.limits[Limit::kSessions] = 7;
  EXPECT_THAT(NeedRestart(before, after),
              ElementsAre("runtime", "max-sessions"));
}

TEST(OptionsTest, TheCommandLineWins) {
  std::string path = testing::TempDir() + "/options_XXXXXX";
  const int fd = ::mkstemp(path.data());
  ASSERT_GE(fd, 0);
  ::close(fd);
  std::ofstream(path) << "listen = unix:/file\nmax_sessions = 3\nthreads = 2\n"
                         "listen_tcp = a:1\n";
  const auto options = ParseArguments(
      {"--max-sessions", "4", "--listen", "unix:/line", "--listen-tcp", "b:2",
       "--listen-tcp", "c:3", "--config", path});
  ::unlink(path.c_str());
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->listen, ElementsAre("unix:/line"));
  EXPECT_THAT(options->listen_tcp, ElementsAre("b:2", "c:3"));
  EXPECT_EQ(options->limits[Limit::kSessions], 4u);
  EXPECT_EQ(options->threads, 2u);
}

// The file that is shipped, as it is and with every suggestion taken.
TEST(OptionsTest, TheDefaultConfigIsValid) {
  std::ifstream file("deploy/tvarantd.conf");
  ASSERT_TRUE(file.good());
  std::stringstream text;
  text << file.rdbuf();
  Options options;
  EXPECT_TRUE(ParseConfig(text.str(), "conf", &options).ok());
  std::string all;
  for (std::string line; std::getline(text, line);) {
    const bool suggestion = line.size() > 1 && line[0] == '#' && line[1] != ' ';
    all += (suggestion ? line.substr(1) : line) + "\n";
  }
  Options taken;
  const absl::Status status = ParseConfig(all, "conf", &taken);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(taken.limits, Options().limits);
  EXPECT_EQ(taken.drain_seconds, Options().drain_seconds);
}

TEST(OptionsTest, HelpNamesEveryOption) {
  const std::string help = HelpText();
  for (const char* name :
       {"--listen", "--runtime", "--memory", "--config", "--version", "--help",
        "--exit-with-parent", "--ready-fd", "--max-streams"}) {
    EXPECT_THAT(help, HasSubstr(name));
  }
}

}  // namespace
}  // namespace tvarant
