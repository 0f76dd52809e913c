#include "proto/base/logging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace tvarant::base {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

TEST(LogValueTest, LeavesPlainTextAlone) {
  EXPECT_EQ(LogValue("sim-0.1/x"), "sim-0.1/x");
}

TEST(LogValueTest, QuotesWhatCouldForgeALine) {
  EXPECT_EQ(LogValue(""), "\"\"");
  EXPECT_EQ(LogValue("a b"), "\"a b\"");
  EXPECT_EQ(LogValue("a\nlevel=error"), "\"a\\x0alevel=error\"");
  EXPECT_EQ(LogValue("\"\\"), "\"\\\"\\\\\"");
  EXPECT_EQ(LogValue("\x1b[2J\xff"), "\"\\x1b[2J\\xff\"");
}

TEST(LogValueTest, CutsLongText) {
  const std::string value = LogValue(std::string(10000, 'a'));
  EXPECT_LT(value.size(), 300u);
  EXPECT_THAT(value, HasSubstr("..."));
}

TEST(LogLimiterTest, LetsABurstThroughAndThenTheRate) {
  LogLimiter limiter(2, 1.0);
  constexpr int64_t kSecond = 1'000'000'000;
  EXPECT_TRUE(limiter.Allow(0));
  EXPECT_TRUE(limiter.Allow(0));
  EXPECT_FALSE(limiter.Allow(0));
  EXPECT_FALSE(limiter.Allow(kSecond / 2));
  EXPECT_TRUE(limiter.Allow(kSecond));
  EXPECT_FALSE(limiter.Allow(kSecond));
  EXPECT_TRUE(limiter.Allow(10 * kSecond));
  EXPECT_TRUE(limiter.Allow(10 * kSecond));
  EXPECT_FALSE(limiter.Allow(10 * kSecond));
  EXPECT_EQ(limiter.TakeSuppressed(), 4u);
  EXPECT_EQ(limiter.TakeSuppressed(), 0u);
}

// Sets an environment variable for one test.
class ScopedEnv {
 public:
  ScopedEnv(const char* name, const std::string& value) : name_(name) {
    ::setenv(name, value.c_str(), 1);
  }
  ~ScopedEnv() { ::unsetenv(name_); }

 private:
  const char* name_;
};

TEST(InitLoggingTest, WritesOneLineToStderr) {
  testing::internal::CaptureStderr();
  InitLogging();
  spdlog::info("event=test n={}", 3);
  spdlog::debug("event=hidden");
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              MatchesRegex("....-..-..T..:..:......Z level=info "
                           "event=test n=3\n"));
}

TEST(InitLoggingTest, TakesTheLevelFromTheEnvironment) {
  const ScopedEnv level("TVARANT_LOG", "error");
  testing::internal::CaptureStderr();
  InitLogging();
  spdlog::warn("event=hidden");
  spdlog::error("event=shown");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("event=shown"));
  EXPECT_THAT(text, testing::Not(HasSubstr("event=hidden")));
}

TEST(InitLoggingTest, SaysThatALevelIsUnknown) {
  const ScopedEnv level("TVARANT_LOG", "loud\n");
  testing::internal::CaptureStderr();
  InitLogging();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("event=unknown_log_level value=\"loud\\x0a\""));
}

TEST(InitLoggingTest, WritesPrioritiesForTheJournal) {
  testing::internal::CaptureStderr();
  struct stat info;
  ASSERT_EQ(::fstat(STDERR_FILENO, &info), 0);
  const ScopedEnv stream("JOURNAL_STREAM", std::to_string(info.st_dev) + ":" +
                                               std::to_string(info.st_ino));
  InitLogging();
  spdlog::error("event=test");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "<3>level=error event=test\n");
}

TEST(InitLoggingTest, IgnoresAJournalThatIsNotOurStderr) {
  const ScopedEnv stream("JOURNAL_STREAM", "1:1");
  testing::internal::CaptureStderr();
  InitLogging();
  spdlog::error("event=test");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), StartsWith("2"));
}

}  // namespace
}  // namespace tvarant::base
