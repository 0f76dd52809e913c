#include "daemon/server/flight_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "proto/ops/op_ids.h"

namespace tvarant {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

FlightEvent Command(uint64_t sequence, int64_t end_ns = 1) {
  return {.what = static_cast<uint16_t>(RecordKind::kLaunch),
          .kernel = static_cast<uint16_t>(Kernel::kGemm),
          .sequence = sequence,
          .start_ns = static_cast<int64_t>(sequence) * 10,
          .end_ns = end_ns};
}

TEST(FlightRecorderTest, ReadsWhatHasFinished) {
  FlightRecorder recorder(7, 2);
  recorder.Begin(Command(1, 0));
  recorder.End(15, absl::StatusCode::kOutOfRange);
  recorder.Add({.what = FlightEvent::kBatch, .sequence = 2, .end_ns = 16});
  recorder.Begin(Command(2, 0));
  uint64_t next = 0;
  std::vector<FlightEvent> events;
  EXPECT_EQ(recorder.ReadSince(&next, &events), 0u);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_STREQ(events[0].Name(), "gemm_bias_act");
  EXPECT_EQ(events[0].sequence, 1u);
  EXPECT_EQ(events[0].start_ns, 10);
  EXPECT_EQ(events[0].end_ns, 15);
  EXPECT_EQ(events[0].code, absl::StatusCode::kOutOfRange);
  EXPECT_STREQ(events[1].Name(), "batch");
  recorder.End(30, absl::StatusCode::kOk);
  events.clear();
  EXPECT_EQ(recorder.ReadSince(&next, &events), 0u);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].sequence, 2u);
  EXPECT_EQ(events[0].end_ns, 30);
}

TEST(FlightRecorderTest, CountsWhatWasOverwritten) {
  FlightRecorder recorder(1, 0);
  constexpr uint64_t kCount = 3 * FlightRecorder::kEvents;
  for (uint64_t i = 0; i < kCount; ++i) recorder.Add(Command(i));
  uint64_t next = 0;
  std::vector<FlightEvent> events;
  const uint64_t lost = recorder.ReadSince(&next, &events);
  EXPECT_EQ(events.size(), FlightRecorder::kEvents - 1);
  EXPECT_EQ(lost + events.size(), kCount);
  EXPECT_EQ(events.back().sequence, kCount - 1);
}

TEST(FlightRecorderTest, AReaderSeesWholeEvents) {
  FlightRecorder recorder(1, 0);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint64_t i = 0; !stop.load(); ++i) {
      recorder.Begin(Command(i, 0));
      recorder.End(static_cast<int64_t>(i) + 1, absl::StatusCode::kOk);
    }
  });
  uint64_t next = 0, seen = 0, lost = 0;
  std::vector<FlightEvent> events;
  while (seen < 20000) {
    events.clear();
    lost += recorder.ReadSince(&next, &events);
    for (const FlightEvent& event : events) {
      ASSERT_EQ(event.start_ns, static_cast<int64_t>(event.sequence) * 10);
      ASSERT_EQ(event.end_ns, static_cast<int64_t>(event.sequence) + 1);
    }
    seen += events.size();
    ASSERT_EQ(seen + lost, next);
  }
  stop.store(true);
  writer.join();
}

std::string WrittenByAll() {
  FILE* const file = ::tmpfile();
  FlightRecorder::WriteAll(::fileno(file));
  ::rewind(file);
  std::string text(100000, '\0');
  text.resize(::fread(text.data(), 1, text.size(), file));
  ::fclose(file);
  return text;
}

TEST(FlightRecorderTest, ACrashWritesWhatRuns) {
  {
    FlightRecorder recorder(70, 1);
    recorder.Add({.what = FlightEvent::kWait, .sequence = 1, .end_ns = 9});
    recorder.Begin(Command(2, 0));
    FlightRecorder other(71, 0);
    const std::string text = WrittenByAll();
    EXPECT_THAT(text, HasSubstr("session=70 stream=1 sequence=1 "
                                "what=wait_for_device start_ns=0 took_ns=9\n"));
    EXPECT_THAT(text, HasSubstr("session=70 stream=1 sequence=2 "
                                "what=gemm_bias_act start_ns=20 running=1\n"));
    EXPECT_THAT(text, Not(HasSubstr("session=71")));
  }
  EXPECT_EQ(WrittenByAll(), "");
}

}  // namespace
}  // namespace tvarant
