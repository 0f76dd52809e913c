#include "client/ctl/output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "client/ctl/trace_file.h"
#include "proto/tvarant/v1/admin.pb.h"

namespace tvarant::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(JsonTest, EveryFieldAndNumbersAsNumbers) {
  v1::ListSessionsResponse response;
  EXPECT_EQ(ToJson(response), "{\"sessions\": []}");
  v1::SessionInfo* session = response.add_sessions();
  session->set_id(7);
  session->set_pid(-1);
  session->set_client_name("a \"b\"\n\xff");
  session->set_busy_seconds(0.25);
  const std::string json = ToJson(response);
  EXPECT_THAT(json, HasSubstr("\"id\": 7, "));
  EXPECT_THAT(json, HasSubstr("\"pid\": -1, "));
  EXPECT_THAT(json, HasSubstr("\"busy_seconds\": 0.25, "));
  EXPECT_THAT(json, HasSubstr("\"local\": false"));
  EXPECT_THAT(json, HasSubstr(R"("a \"b\"\u000a\ufffd")"));
}

TEST(TableTest, NumbersToTheRightTextToTheLeft) {
  EXPECT_EQ(Table({{"ID", "NAME"}, {"7", "abc"}, {"1234", "d"}}),
            "  ID  NAME\n"
            "   7  abc\n"
            "1234  d\n");
}

TEST(TableTest, AClientCantMoveTheCursor) {
  EXPECT_EQ(Printable("a\x1b[2Jb\r\n\x7f"), "a?[2Jb???");
  EXPECT_EQ(Printable("\xc2\x9b"
                      "31m"),
            "?31m");
  EXPECT_EQ(Printable("\xff\xc3"), "??");
  EXPECT_EQ(Printable("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
}

TEST(UnitsTest, ForPeople) {
  EXPECT_EQ(Bytes(0), "0 B");
  EXPECT_EQ(Bytes(1536), "1.5 KiB");
  EXPECT_EQ(Bytes(3.0 * (uint64_t{1} << 40)), "3.0 TiB");
  EXPECT_EQ(Duration(0.25), "0.2 s");
  EXPECT_EQ(Duration(42), "42 s");
  EXPECT_EQ(Duration(125), "2 min 5 s");
  EXPECT_EQ(Duration(3700), "1 h 1 min");
  EXPECT_EQ(Duration(90000), "1 d 1 h");
}

v1::TraceEvent* AddEvent(v1::TraceResponse* trace, v1::TraceEvent::Kind kind,
                         int64_t start_ns, int64_t end_ns, const char* name) {
  v1::TraceEvent* event = trace->add_events();
  event->set_kind(kind);
  event->set_session(3);
  event->set_stream(0);
  event->set_sequence(1);
  event->set_start_ns(start_ns);
  event->set_end_ns(end_ns);
  event->set_name(name);
  return event;
}

TEST(TraceTest, ArrowsFromClientToDaemonToDevice) {
  v1::TraceResponse trace;
  AddEvent(&trace, v1::TraceEvent::KIND_BATCH, 1000, 3000, "batch");
  AddEvent(&trace, v1::TraceEvent::KIND_WAIT, 3000, 4000, "wait_for_device");
  AddEvent(&trace, v1::TraceEvent::KIND_COMMAND, 4000, 9000, "gemm_bias_act");
  v1::ListSessionsResponse sessions;
  v1::SessionInfo* session = sessions.add_sessions();
  session->set_id(3);
  session->set_pid(55);
  session->set_client_name("train.py");
  v1::GetStatusResponse daemon;
  daemon.set_pid(9);
  daemon.set_device_name("sim");
  const std::string json = ChromeTrace(trace, sessions, daemon);
  EXPECT_THAT(json, HasSubstr(R"("client train.py")"));
  // Sent at 0, arrived at 2 us, done at 8 us.
  EXPECT_THAT(json, HasSubstr(R"({"name": "send", "ph": "X", "pid": 55, )"
                              R"("tid": 1, "ts": 0.000, "dur": 2.000)"));
  EXPECT_THAT(json, HasSubstr(R"({"name": "batch", "ph": "X", "pid": 9, )"
                              R"("tid": 1, "ts": 2.000, "dur": 6.000)"));
  EXPECT_THAT(json,
              HasSubstr(R"({"name": "gemm_bias_act", "ph": "X", "pid": )"
                        R"(1073741824, "tid": 1, "ts": 3.000, "dur": 5.000)"));
  for (
      const char* arrow :
      {R"("ph": "s", "pid": 55, "tid": 1, "cat": "flow", "id": 1, "ts": 0.000)",
       R"("ph": "t", "pid": 9, "tid": 1, "cat": "flow", "id": 1, "ts": 2.000)",
       R"("ph": "f", "pid": 1073741824, "tid": 1, "cat": "flow", "id": 1, )"
       R"("ts": 3.000)"}) {
    EXPECT_THAT(json, HasSubstr(arrow));
  }
}

TEST(TraceTest, WithoutTheClientsTimeTheArrowStartsInTheDaemon) {
  v1::TraceResponse trace;
  AddEvent(&trace, v1::TraceEvent::KIND_BATCH, 0, 3000, "batch");
  AddEvent(&trace, v1::TraceEvent::KIND_COMMAND, 4000, 9000, "fill")
      ->set_code(11);
  const std::string json =
      ChromeTrace(trace, v1::ListSessionsResponse(), v1::GetStatusResponse());
  EXPECT_THAT(json, Not(HasSubstr("send")));
  EXPECT_THAT(json, HasSubstr(R"("ph": "s")"));
  EXPECT_THAT(json, HasSubstr(R"("code": 11)"));
  EXPECT_THAT(ChromeTrace(v1::TraceResponse(), v1::ListSessionsResponse(),
                          v1::GetStatusResponse()),
              HasSubstr("traceEvents"));
}

}  // namespace
}  // namespace tvarant::client
