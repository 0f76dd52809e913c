#include "tests/benchmarks/device/suite.h"

#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/benchmarks/device/report.h"
#include "tests/benchmarks/device/runner.h"
#include "tests/benchmarks/device/torch_rows.h"

namespace tvarant::benchmarks {
namespace {

std::vector<Row> AllRows(bool quick) {
  Scale scale;
  if (quick)
    scale = {.array_bytes = 1 << 20, .largest_product = 256, .quick = true};
  return ChooseRows(scale, {});
}

TEST(Summarise, MedianAndLeast) {
  EXPECT_DOUBLE_EQ(Summarise({3, 1, 2}).median_seconds, 2);
  EXPECT_DOUBLE_EQ(Summarise({4, 1, 2, 3}).median_seconds, 2.5);
  EXPECT_DOUBLE_EQ(Summarise({4, 1, 2, 3}).min_seconds, 1);
}

TEST(TimeTurns, TakesTurnsUntilTheSampleIsLongEnough) {
  std::vector<int64_t> calls;
  Timing timing;
  const Status status = TimeTurns(
      [&](int64_t turns) {
        calls.push_back(turns);
        const double end = Now() + 20e-6 * static_cast<double>(turns);
        while (Now() < end) {
        }
        return Status();
      },
      0.02, &timing);
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(calls.front(), 1);
  EXPECT_GT(calls.back(), 4);
  EXPECT_GE(timing.min_seconds, 20e-6);
  EXPECT_GE(timing.samples, 2);
}

TEST(TimeTurns, StopsAtAFailure) {
  int calls = 0;
  Timing timing;
  const Status status = TimeTurns(
      [&](int64_t) {
        ++calls;
        return Status(Code::kInternal, "no");
      },
      1, &timing);
  EXPECT_EQ(status.message(), "no");
  EXPECT_EQ(calls, 1);
}

TEST(RandomBytes, NumbersBelowOneOfBothSigns) {
  const std::string bytes = RandomBytes(DType::kFloat32, 1000);
  ASSERT_EQ(bytes.size(), 4000u);
  bool negative = false, positive = false;
  for (int i = 0; i < 1000; ++i) {
    float value;
    std::memcpy(&value, bytes.data() + 4 * i, 4);
    ASSERT_LT(std::fabs(value), 1.0f);
    ASSERT_GE(std::fabs(value), 1.0f / 16);
    negative |= value < 0;
    positive |= value > 0;
  }
  EXPECT_TRUE(negative && positive);
}

TEST(RandomBytes, HalfTypesHaveNoSpecialValues) {
  const std::string bytes = RandomBytes(DType::kFloat16, 1000);
  for (int i = 0; i < 1000; ++i) {
    uint16_t bits;
    std::memcpy(&bits, bytes.data() + 2 * i, 2);
    const int exponent = bits >> 10 & 31;
    ASSERT_GE(exponent, 11);
    ASSERT_LE(exponent, 14);
  }
}

TEST(Rows, AreCompleteAndTellThemselvesApart) {
  for (const bool quick : {true, false}) {
    std::set<std::string> titles;
    for (const Row& row : AllRows(quick)) {
      const std::string title = row.family + " " + row.name + " " +
                                NameOf(row.dtype) + " " + ShapeOf(row);
      EXPECT_TRUE(titles.insert(title).second) << title;
      EXPECT_NE(row.prepare == nullptr, row.measure == nullptr) << title;
      for (const int64_t size : row.sizes) EXPECT_GT(size, 0) << title;
    }
    EXPECT_GT(titles.size(), 70u);
  }
}

TEST(Rows, EveryPeerStandsInThePythonScript) {
  const std::string script = kTorchRows;
  for (const Row& row : AllRows(true)) {
    if (row.peer.empty()) continue;
    EXPECT_NE(script.find("    \"" + row.peer + "\": "), std::string::npos)
        << row.peer;
  }
}

TEST(Rows, OnlyKeepsTheReference) {
  const std::vector<Row> rows = ChooseRows(Scale(), {"softmax"});
  int references = 0;
  for (const Row& row : rows) {
    references += row.is_reference;
    EXPECT_TRUE(row.is_reference ||
                (row.family + " " + row.name).find("softmax") !=
                    std::string::npos);
  }
  EXPECT_EQ(references, 2);
  EXPECT_GT(rows.size(), 2u);
}

TEST(Report, RatesComeOfTheMedian) {
  Outcome outcome;
  outcome.row.bytes = 100;
  outcome.row.flops = 1000;
  outcome.ours = Summarise({2, 1, 4});
  outcome.torch = Summarise({6});
  outcome.copy_bytes_per_second = 200;
  EXPECT_DOUBLE_EQ(outcome.bytes_per_second(), 50);
  EXPECT_DOUBLE_EQ(outcome.flops_per_second(), 500);
  EXPECT_DOUBLE_EQ(outcome.of_copy(), 0.25);
  EXPECT_DOUBLE_EQ(outcome.speed(), 3);
}

TEST(Report, JsonLeavesOutWhatWasNotMeasured) {
  Outcome outcome;
  outcome.row.family = "gemm";
  outcome.row.name = "a \"b\"\n";
  outcome.row.dtype = DType::kFloat32;
  outcome.row.sizes = {2, 3};
  outcome.problem = "no time";
  client::DeviceProperties properties;
  properties.name = "a card";
  EXPECT_EQ(ToJson(properties, "", {outcome}),
            "{\"device\": {\"name\": \"a card\"}, \"rows\": [\n"
            "  {\"family\": \"gemm\", \"name\": \"a \\\"b\\\"\\u000a\", "
            "\"dtype\": \"float32\", \"sizes\": [2, 3], "
            "\"skipped\": \"no time\"}\n]}\n");
}

}  // namespace
}  // namespace tvarant::benchmarks
