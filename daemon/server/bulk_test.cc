// Large transfers by message, from a client that does as it likes.

#include "proto/wire/bulk.h"

#include <optional>
#include <string>

#include "daemon/server/bulk_exchange.h"
#include "daemon/server/server_test_util.h"

namespace tvarant {
namespace {

constexpr uint64_t kSegmentBytes = 4 << 20;

class BulkTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    fixture_.emplace(FakeRuntimeOptions{.memory_bytes = 16 << 20,
                                        .synchronous = GetParam()});
    client_.emplace(fixture_->socket_path());
    ASSERT_TRUE(client_->Open().ok());
    EXPECT_EQ(client_->session().bulk_credit_bytes(),
              BulkExchange::kCreditBytes);
    ASSERT_TRUE(client_->CreateSegment(1, kSegmentBytes).ok());
    stream_.emplace(*client_, 0);
    ASSERT_TRUE(stream_->ok());
  }
  void TearDown() override {
    stream_.reset();
    client_.reset();
  }

  static std::string Record(RecordKind kind, uint64_t segment, uint64_t offset,
                            uint64_t transfer, uint64_t bytes) {
    return TransferRecord(kind, {.handle = segment,
                                 .offset_bytes = offset,
                                 .handle2 = transfer,
                                 .offset2_bytes = 0,
                                 .bytes = bytes});
  }

  std::optional<ServerFixture> fixture_;
  std::optional<RawClient> client_;
  std::optional<RawStream> stream_;
};
INSTANTIATE_TEST_SUITE_P(Runtimes, BulkTest, ::testing::Bool());

// The stream for large transfers of a client.
class RawBulk {
 public:
  explicit RawBulk(RawClient& client)
      : context_(client.Context()),
        io_(client.device().RunBulk(context_.get())) {}
  ~RawBulk() {
    if (!finished_) Finish();
  }

  bool Send(uint64_t transfer, const std::string& bytes) {
    v1::BulkToDaemon message;
    message.set_transfer(transfer);
    message.set_data(bytes);
    return io_->Write(message);
  }
  std::optional<v1::BulkToClient> Receive() {
    v1::BulkToClient message;
    if (!io_->Read(&message)) return std::nullopt;
    return message;
  }
  // What the daemon ended it with, or, if it has not, the end of ours.
  grpc::Status Finish(bool cancel = true) {
    if (cancel) context_->TryCancel();
    finished_ = true;
    while (Receive().has_value()) {
    }
    return io_->Finish();
  }

 private:
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::BulkToDaemon, v1::BulkToClient>>
      io_;
  bool finished_ = false;
};

TEST_P(BulkTest, BytesMayComeBeforeAndAfterTheirRecord) {
  RawBulk bulk(*client_);
  const std::string early(kMaxBulkChunkBytes, 'e');
  ASSERT_TRUE(bulk.Send(7, early));
  ASSERT_TRUE(stream_->Send(
      Record(RecordKind::kUploadBulk, 1, 0, 7, 2 * kMaxBulkChunkBytes) +
          ReadRecord(1, kMaxBulkChunkBytes - 1, 2),
      2));
  // Of another transfer, whose record comes later.
  ASSERT_TRUE(bulk.Send(8, "later"));
  ASSERT_TRUE(bulk.Send(7, std::string(kMaxBulkChunkBytes, 'l')));
  auto completion = stream_->Receive();
  ASSERT_TRUE(completion.has_value());
  ASSERT_EQ(completion->reads_size(), 1);
  EXPECT_EQ(completion->reads(0).data(), "el");
  ASSERT_TRUE(stream_->Send(
      Record(RecordKind::kUploadBulk, 1, 3, 8, 5) + ReadRecord(1, 2, 7), 2));
  completion = stream_->Receive();
  ASSERT_TRUE(completion.has_value());
  ASSERT_EQ(completion->reads_size(), 1);
  EXPECT_EQ(completion->reads(0).data(), "elatere");
}

TEST_P(BulkTest, DownloadsComeInChunksOrFail) {
  // The record may come before the stream that it needs.
  ASSERT_TRUE(stream_->Send(
      UploadRecord(1, kMaxBulkChunkBytes - 1, "xy") +
          Record(RecordKind::kDownloadBulk, 1, 0, 9, kMaxBulkChunkBytes + 3),
      2));
  RawBulk bulk(*client_);
  std::string got;
  while (got.size() < kMaxBulkChunkBytes + 3) {
    const auto message = bulk.Receive();
    ASSERT_TRUE(message.has_value());
    EXPECT_EQ(message->transfer(), 9u);
    EXPECT_LE(message->data().size(), kMaxBulkChunkBytes);
    got += message->data();
  }
  EXPECT_EQ(got.substr(kMaxBulkChunkBytes - 1), std::string("xy\0\0", 4));
  ASSERT_TRUE(stream_->Receive().has_value());
  ASSERT_TRUE(stream_->Send(
      Record(RecordKind::kDownloadBulk, 1, kSegmentBytes, 10, 1), 1));
  const auto message = bulk.Receive();
  ASSERT_TRUE(message.has_value());
  EXPECT_TRUE(message->failed());
  const auto completion = stream_->Receive();
  ASSERT_TRUE(completion.has_value());
  ASSERT_EQ(completion->failures_size(), 1);
  EXPECT_EQ(completion->failures(0).op(), "download");
}

TEST_P(BulkTest, CreditComesBack) {
  RawBulk bulk(*client_);
  const std::string chunk(kMaxBulkChunkBytes, 'c');
  uint64_t credit = BulkExchange::kCreditBytes;
  for (uint64_t i = 1; i <= 40; ++i) {
    while (credit < chunk.size()) {
      const auto message = bulk.Receive();
      ASSERT_TRUE(message.has_value());
      credit += message->credit_bytes();
      ASSERT_LE(credit, BulkExchange::kCreditBytes);
    }
    // Wrong ones, too.
    const uint64_t offset = i % 3 == 0 ? kSegmentBytes : 0;
    ASSERT_TRUE(stream_->Send(
        Record(RecordKind::kUploadBulk, 1, offset, i, chunk.size()), 1));
    ASSERT_TRUE(bulk.Send(i, chunk));
    credit -= chunk.size();
  }
}

TEST_P(BulkTest, RefusesWhatBreaksTheRules) {
  for (const uint64_t size : {uint64_t{0}, kMaxBulkChunkBytes + 1}) {
    RawClient client(fixture_->socket_path());
    ASSERT_TRUE(client.Open().ok());
    RawBulk bulk(client);
    bulk.Send(1, std::string(size, 'x'));
    EXPECT_EQ(bulk.Finish(false).error_code(),
              grpc::StatusCode::INVALID_ARGUMENT);
  }
  {
    RawBulk bulk(*client_);
    const std::string chunk(kMaxBulkChunkBytes, 'x');
    for (uint64_t i = 0; i <= BulkExchange::kCreditBytes / chunk.size(); ++i) {
      if (!bulk.Send(i, chunk)) break;
    }
    EXPECT_EQ(bulk.Finish(false).error_code(),
              grpc::StatusCode::INVALID_ARGUMENT);
  }
  // There is no second one.
  RawBulk again(*client_);
  EXPECT_FALSE(again.Finish(false).ok());
  RawClient stranger(fixture_->socket_path());
  stranger.set_token(std::string(32, 't'));
  EXPECT_EQ(RawBulk(stranger).Finish(false).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
}

TEST_P(BulkTest, AChunkThatIsTooLargeForItsRecordFailsIt) {
  RawBulk bulk(*client_);
  ASSERT_TRUE(bulk.Send(3, "too many"));
  ASSERT_TRUE(stream_->Send(
      Record(RecordKind::kUploadBulk, 1, 0, 3, 4) + ReadRecord(1, 0, 4), 2));
  const auto completion = stream_->Receive();
  ASSERT_TRUE(completion.has_value());
  ASSERT_EQ(completion->failures_size(), 1);
  ASSERT_EQ(completion->reads_size(), 1);
  EXPECT_EQ(completion->reads(0).data(), std::string(4, '\0'));
}

TEST_P(BulkTest, WaitsEndWithTheSession) {
  // For bytes that never come; others run meanwhile.
  ASSERT_TRUE(stream_->Send(Record(RecordKind::kUploadBulk, 1, 0, 5, 100), 1));
  RawClient other(fixture_->socket_path());
  ASSERT_TRUE(other.Open().ok());
  ASSERT_TRUE(other.CreateSegment(1, 4096).ok());
  RawStream stream(other, 0);
  ASSERT_TRUE(stream.Send(ReadRecord(1, 0, 4), 1));
  EXPECT_TRUE(stream.Receive().has_value());
  EXPECT_TRUE(client_->Close().ok());
  EXPECT_FALSE(stream_->Receive().has_value());
  EXPECT_TRUE(Eventually(
      [&] { return fixture_->Count(Counter::kSessionsEnded) == 1; }));
}

}  // namespace
}  // namespace tvarant
