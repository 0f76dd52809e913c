#include "proto/wire/record.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace tvarant {
namespace {

// A batch's bytes at an address that records may stand at.
class Aligned {
 public:
  explicit Aligned(const std::string& bytes) : words_(bytes.size() / 8 + 1) {
    std::memcpy(words_.data(), bytes.data(), bytes.size());
  }
  const char* data() const {
    return reinterpret_cast<const char*>(words_.data());
  }
  char* data() { return reinterpret_cast<char*>(words_.data()); }

 private:
  std::vector<uint64_t> words_;
};

struct Example {
  int64_t sizes[2] = {3, 5};
  int64_t strides[2] = {5, 1};
  int64_t ints[2] = {-7, INT64_MAX};
  double floats[3] = {0.5, -1e300, 0.0};
  Operand dst[1] = {{.segment = 11,
                     .offset_bytes = 512,
                     .dtype = DType::kFloat32,
                     .rank = 2,
                     .sizes = sizes,
                     .strides = strides}};
  Operand src[3] = {{.segment = 12,
                     .offset_bytes = 8,
                     .dtype = DType::kInt64,
                     .rank = 1,
                     .sizes = sizes + 1,
                     .strides = strides + 1},
                    {},
                    {.segment = 13,
                     .offset_bytes = 0,
                     .dtype = DType::kBool,
                     .rank = 0,
                     .sizes = nullptr,
                     .strides = nullptr}};
  LaunchParams params{.kernel = Kernel::kGemm,
                      .act = Act::kSilu,
                      .flags = 5,
                      .program = 77,
                      .m = 1,
                      .n = 2,
                      .k = 3,
                      .batch = 4,
                      .alpha = 1.5,
                      .beta = 2.5,
                      .scalar = 3.5,
                      .ints = ints,
                      .num_ints = 2,
                      .floats = floats,
                      .num_floats = 3,
                      .dst = dst,
                      .num_dst = 1,
                      .src = src,
                      .num_src = 3};

  std::string Encode() const {
    std::string bytes;
    EXPECT_TRUE(RecordWriter(&bytes).Launch(params));
    return bytes;
  }
};

void ExpectOperand(const Operand& got, const Operand& want) {
  EXPECT_EQ(got.segment, want.segment);
  EXPECT_EQ(got.offset_bytes, want.offset_bytes);
  EXPECT_EQ(got.dtype, want.dtype);
  ASSERT_EQ(got.rank, want.rank);
  for (int i = 0; i < got.rank; ++i) {
    EXPECT_EQ(got.sizes[i], want.sizes[i]);
    EXPECT_EQ(got.strides[i], want.strides[i]);
  }
}

TEST(RecordTest, LaunchComesBackAsItWas) {
  const Example example;
  const std::string bytes = example.Encode();
  EXPECT_EQ(bytes.size() % 8, 0u);
  const Aligned batch(bytes);
  ParsedRecord record;
  ASSERT_STREQ(ParseRecord(batch.data(), bytes.size(), &record), nullptr);
  EXPECT_EQ(record.kind, RecordKind::kLaunch);
  EXPECT_EQ(record.size_bytes, bytes.size());
  const LaunchHead& head = record.launch.head;
  EXPECT_EQ(head.kernel, static_cast<uint16_t>(Kernel::kGemm));
  EXPECT_EQ(head.act, static_cast<uint8_t>(Act::kSilu));
  EXPECT_EQ(head.flags, 5u);
  EXPECT_EQ(head.program, 77u);
  EXPECT_EQ(head.m, 1);
  EXPECT_EQ(head.n, 2);
  EXPECT_EQ(head.k, 3);
  EXPECT_EQ(head.batch, 4);
  EXPECT_EQ(head.alpha, 1.5);
  EXPECT_EQ(head.beta, 2.5);
  EXPECT_EQ(head.scalar, 3.5);
  ASSERT_EQ(head.num_ints, 2);
  EXPECT_EQ(record.launch.ints[0], -7);
  EXPECT_EQ(record.launch.ints[1], INT64_MAX);
  ASSERT_EQ(head.num_floats, 3);
  EXPECT_EQ(record.launch.floats[1], -1e300);
  ASSERT_EQ(head.num_dst, 1);
  ASSERT_EQ(head.num_src, 3);
  const char* cursor = record.launch.operands;
  ExpectOperand(NextOperand(&cursor), example.dst[0]);
  for (const Operand& operand : example.src) {
    ExpectOperand(NextOperand(&cursor), operand);
  }
  EXPECT_EQ(cursor, record.launch.end);
}

TEST(RecordTest, RecordsFollowEachOther) {
  std::string bytes;
  RecordWriter writer(&bytes);
  writer.Upload(5, 24, "hello", 5);
  writer.Transfer(RecordKind::kCopyBytes, {.handle = 1,
                                           .offset_bytes = 2,
                                           .handle2 = 3,
                                           .offset2_bytes = 4,
                                           .bytes = uint64_t{1} << 60});
  writer.DefineProgram(9, "0123456789abcdef");
  writer.Transfer(RecordKind::kMarker, {});
  const Aligned batch(bytes);
  const char* at = batch.data();
  size_t left = bytes.size();
  ParsedRecord record;
  const auto next = [&] {
    EXPECT_STREQ(ParseRecord(at, left, &record), nullptr);
    at += record.size_bytes;
    left -= record.size_bytes;
  };
  next();
  EXPECT_EQ(record.kind, RecordKind::kUpload);
  EXPECT_EQ(record.transfer.handle, 5u);
  EXPECT_EQ(record.transfer.offset_bytes, 24u);
  EXPECT_EQ(std::string(record.payload, record.transfer.bytes), "hello");
  next();
  EXPECT_EQ(record.kind, RecordKind::kCopyBytes);
  EXPECT_EQ(record.transfer.handle2, 3u);
  EXPECT_EQ(record.transfer.offset2_bytes, 4u);
  EXPECT_EQ(record.transfer.bytes, uint64_t{1} << 60);
  next();
  EXPECT_EQ(record.kind, RecordKind::kDefineProgram);
  EXPECT_EQ(record.transfer.handle, 9u);
  EXPECT_EQ(std::string(record.payload, record.transfer.bytes),
            "0123456789abcdef");
  next();
  EXPECT_EQ(record.kind, RecordKind::kMarker);
  EXPECT_EQ(left, 0u);
}

TEST(RecordTest, WriterRefusesWhatDoesNotFit) {
  Example example;
  std::string bytes = "before..";
  RecordWriter writer(&bytes);
  LaunchParams params = example.params;
  params.num_ints = kMaxInts + 1;
  EXPECT_FALSE(writer.Launch(params));
  params = example.params;
  params.num_floats = -1;
  EXPECT_FALSE(writer.Launch(params));
  params = example.params;
  params.num_src = INT32_MAX;
  EXPECT_FALSE(writer.Launch(params));
  example.src[1].rank = kMaxRank + 1;
  EXPECT_FALSE(writer.Launch(example.params));
  EXPECT_EQ(bytes, "before..");
}

TEST(RecordTest, WriterRefusesARecordOverTheLimit) {
  std::vector<int64_t> extents(kMaxRank, 1);
  const Operand operand{.segment = 1,
                        .offset_bytes = 0,
                        .dtype = DType::kBool,
                        .rank = kMaxRank,
                        .sizes = extents.data(),
                        .strides = extents.data()};
  const std::vector<Operand> operands(kMaxOperands, operand);
  LaunchParams params{.kernel = Kernel::kCat};
  params.src = operands.data();
  params.num_src = kMaxOperands;
  std::string bytes;
  EXPECT_FALSE(RecordWriter(&bytes).Launch(params));
  EXPECT_TRUE(bytes.empty());
}

// What a correct reader may do with a parsed record; sanitizers see the rest.
void Touch(const ParsedRecord& record) {
  volatile char sink = 0;
  if (record.kind == RecordKind::kLaunch) {
    const char* cursor = record.launch.operands;
    const int count = record.launch.head.num_dst + record.launch.head.num_src;
    for (int i = 0; i < count; ++i) {
      const Operand operand = NextOperand(&cursor);
      ASSERT_LE(operand.rank, kMaxRank);
      for (int k = 0; k < operand.rank; ++k) {
        ASSERT_GE(operand.sizes[k], 0);
        ASSERT_GE(operand.strides[k], 0);
      }
    }
    ASSERT_EQ(cursor, record.launch.end);
    for (int i = 0; i < record.launch.head.num_ints; ++i) {
      sink = static_cast<char>(record.launch.ints[i]);
    }
  } else if (record.payload != nullptr) {
    for (uint64_t i = 0; i < record.transfer.bytes; ++i) {
      sink = record.payload[i];
    }
  }
  (void)sink;
}

std::vector<std::string> Samples() {
  std::vector<std::string> samples = {Example().Encode()};
  std::string bytes;
  RecordWriter(&bytes).Upload(5, 24, "hello, world", 12);
  samples.push_back(bytes);
  bytes.clear();
  RecordWriter(&bytes).DefineProgram(9, "0123456789");
  samples.push_back(bytes);
  bytes.clear();
  RecordWriter(&bytes).Transfer(RecordKind::kRead, {.handle = 1,
                                                    .offset_bytes = 0,
                                                    .handle2 = 0,
                                                    .offset2_bytes = 0,
                                                    .bytes = 8});
  samples.push_back(bytes);
  return samples;
}

TEST(RecordTest, EveryTruncationIsRefused) {
  for (const std::string& sample : Samples()) {
    for (size_t size = 0; size < sample.size(); ++size) {
      // As the head says, and with a head that claims the shorter size.
      std::string cut = sample.substr(0, size);
      ParsedRecord record;
      EXPECT_STRNE(ParseRecord(Aligned(cut).data(), size, &record), nullptr);
      if (size < sizeof(RecordHead)) continue;
      const uint32_t claimed = static_cast<uint32_t>(size);
      std::memcpy(cut.data(), &claimed, sizeof(claimed));
      EXPECT_STRNE(ParseRecord(Aligned(cut).data(), size, &record), nullptr);
    }
  }
}

TEST(RecordTest, EveryChangedByteIsSafe) {
  for (const std::string& sample : Samples()) {
    for (size_t at = 0; at < sample.size(); ++at) {
      for (const int flip : {0x01, 0x80, 0xff, 0x10}) {
        std::string changed = sample;
        changed[at] = static_cast<char>(changed[at] ^ flip);
        const Aligned batch(changed);
        ParsedRecord record;
        if (ParseRecord(batch.data(), changed.size(), &record) == nullptr) {
          Touch(record);
        }
      }
    }
  }
}

TEST(RecordTest, GarbageIsSafe) {
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes(random() % 256, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    if (bytes.size() >= sizeof(RecordHead) && random() % 2 == 0) {
      const RecordHead head{static_cast<uint32_t>(bytes.size() & ~size_t{7}),
                            static_cast<uint8_t>(random() % 12), kRecordVersion,
                            0};
      std::memcpy(bytes.data(), &head, sizeof(head));
    }
    const Aligned batch(bytes);
    ParsedRecord record;
    if (ParseRecord(batch.data(), bytes.size(), &record) == nullptr) {
      Touch(record);
    }
  }
}

TEST(RecordTest, NamesTheFault) {
  const std::string good = Example().Encode();
  ParsedRecord record;
  const auto error_at = [&](size_t at, uint8_t value) {
    std::string changed = good;
    changed[at] = static_cast<char>(value);
    const char* error =
        ParseRecord(Aligned(changed).data(), changed.size(), &record);
    return std::string(error == nullptr ? "" : error);
  };
  constexpr size_t kHead = sizeof(RecordHead);
  constexpr size_t kFirstOperand = kHead + sizeof(LaunchHead) + 5 * 8;
  EXPECT_EQ(error_at(4, 0), "record: unknown kind");
  EXPECT_EQ(error_at(4, 13), "record: unknown kind");
  EXPECT_EQ(error_at(5, 2), "record: unknown version");
  EXPECT_EQ(error_at(6, 1), "record: reserved field is not 0");
  EXPECT_EQ(error_at(0, 12), "record: bad size");
  EXPECT_EQ(error_at(kHead + 3, 1), "launch record: reserved field is not 0");
  EXPECT_EQ(error_at(kHead + 9, 0xff),
            "launch record: too many operands or parameters");
  EXPECT_EQ(error_at(kFirstOperand + 16, 16), "launch record: unknown dtype");
  EXPECT_EQ(error_at(kFirstOperand + 17, 17),
            "launch record: rank is too large");
  EXPECT_EQ(error_at(kFirstOperand + 18, 1),
            "launch record: reserved operand fields are not 0");
  EXPECT_EQ(error_at(kFirstOperand + sizeof(OperandHead) + 7, 0x80),
            "launch record: negative size or stride");
  EXPECT_EQ(error_at(kHead + 12, 0), "launch record: bytes left over");
}

TEST(RecordTest, LimitsInlineBytes) {
  std::string bytes;
  RecordWriter writer(&bytes);
  const std::string payload(kMaxInlineBytes + 1, 'x');
  writer.Upload(1, 0, payload.data(), payload.size());
  ParsedRecord record;
  EXPECT_STREQ(ParseRecord(Aligned(bytes).data(), bytes.size(), &record),
               "transfer record: payload has another size");
  bytes.clear();
  writer.Transfer(RecordKind::kRead, {.handle = 1,
                                      .offset_bytes = 0,
                                      .handle2 = 0,
                                      .offset2_bytes = 0,
                                      .bytes = kMaxInlineBytes + 1});
  EXPECT_STREQ(ParseRecord(Aligned(bytes).data(), bytes.size(), &record),
               "transfer record: read is too large");
}

}  // namespace
}  // namespace tvarant
