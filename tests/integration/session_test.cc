// Sessions, segments, transfers.

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/daemon_fixture.h"

namespace tvarant::client {
namespace {

class SessionTest : public DaemonTest {};
TVARANT_INSTANTIATE_MODES(SessionTest);

std::vector<char> Pattern(size_t size, unsigned seed) {
  std::vector<char> bytes(size);
  uint32_t state = seed * 2654435761u + 1;
  for (char& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<char>(state >> 24);
  }
  return bytes;
}

TEST_P(SessionTest, TellsOfItsDevice) {
  auto session = Connect();
  ASSERT_NE(session, nullptr);
  EXPECT_TRUE(session->alive());
  EXPECT_TRUE(session->death().ok());
  EXPECT_EQ(session->memory_is_mapped(), GetParam() == Mode::kMapped);
  const DeviceProperties& properties = session->properties();
  EXPECT_EQ(properties.runtime, "sim");
  EXPECT_FALSE(properties.name.empty());
  EXPECT_EQ(properties.device_count, 1);
  EXPECT_EQ(properties.total_memory_bytes, 256u << 20);

  const MemoryInfo before = Value(session->GetMemoryInfo());
  EXPECT_EQ(before.total_bytes, 256u << 20);
  const uint64_t segment = Value(session->CreateSegment(1 << 20, nullptr));
  const MemoryInfo after = Value(session->GetMemoryInfo());
  EXPECT_EQ(after.session_bytes - before.session_bytes, 1u << 20);
  EXPECT_EQ(before.free_bytes - after.free_bytes, 1u << 20);
  EXPECT_STATUS_OK(session->ReleaseSegments(&segment, 1));
  EXPECT_EQ(Value(session->GetMemoryInfo()).session_bytes,
            before.session_bytes);
}

TEST_P(SessionTest, RefusesAnotherDevice) {
  ConnectOptions options = OptionsFor(GetParam(), daemon_->endpoint());
  options.device_index = 7;
  const auto session = Session::Connect(options);
  EXPECT_EQ(session.status().code(), Code::kInvalidArgument);
}

TEST_P(SessionTest, MapsSegmentsWhereAsked) {
  if (GetParam() != Mode::kMapped) GTEST_SKIP() << "only mapped memory";
  constexpr uint64_t kBytes = 3 << 20;
  auto session = Connect();
  auto stream = Value(session->CreateStream());
  Reservation range(kBytes);
  const uint64_t segment = Value(session->CreateSegment(kBytes, range.data()));
  EXPECT_EQ(std::count(range.data(), range.data() + kBytes, 0), kBytes);
  const std::vector<char> bytes = Pattern(kBytes, 1);
  std::memcpy(range.data(), bytes.data(), kBytes);
  std::vector<char> read(kBytes);
  EXPECT_STATUS_OK(stream->Download(segment, 0, read.data(), kBytes));
  EXPECT_EQ(read, bytes);
}

TEST_P(SessionTest, UploadsAndDownloadsAllSizes) {
  constexpr uint64_t kLargest = 64 << 20;
  auto session = Connect();
  auto stream = Value(session->CreateStream());
  Reservation range(kLargest);
  const uint64_t segment =
      Value(session->CreateSegment(kLargest, range.data()));
  unsigned seed = 1;
  const uint64_t sizes[] = {0,
                            1,
                            7,
                            4096,
                            8191,
                            8193,
                            (64 << 10) - 1,
                            64 << 10,
                            (64 << 10) + 1,
                            (4 << 20) + 3,
                            kLargest};
  for (const uint64_t size : sizes) {
    for (const uint64_t offset : {uint64_t{0}, uint64_t{13}}) {
      if (offset + size > kLargest) continue;
      std::vector<char> bytes = Pattern(size, ++seed);
      const std::vector<char> copy = bytes;
      ASSERT_TRUE(stream->Upload(segment, offset, bytes.data(), size).ok());
      // The bytes have been taken.
      std::fill(bytes.begin(), bytes.end(), 0);
      std::vector<char> read(size, 'x');
      ASSERT_TRUE(stream->Download(segment, offset, read.data(), size).ok());
      ASSERT_EQ(read, copy) << "size " << size << " offset " << offset;
    }
  }
}

TEST_P(SessionTest, HostMemoryGoesUpAndDownInPlace) {
  constexpr uint64_t kBytes = (5 << 20) + 3;
  auto session = Connect();
  auto stream = Value(session->CreateStream());
  auto made = session->CreateHostMemory(kBytes);
  if (!SharesMemory(GetParam())) {
    EXPECT_EQ(made.status().code(), Code::kFailedPrecondition);
    return;
  }
  const auto memory = Value(std::move(made));
  char* data = static_cast<char*>(memory->data());
  EXPECT_EQ(memory->size_bytes(), kBytes);
  EXPECT_TRUE(memory->usable());
  EXPECT_EQ(std::count(data, data + kBytes, 0), kBytes);
  const uint64_t segment = Value(session->CreateSegment(kBytes, nullptr));
  const std::vector<char> bytes = Pattern(kBytes, 3);
  std::memcpy(data, bytes.data(), kBytes);
  for (const uint64_t offset : {uint64_t{0}, uint64_t{11}}) {
    const uint64_t size = kBytes - offset;
    ASSERT_TRUE(stream->UploadFrom(segment, 0, *memory, offset, size).ok());
    EXPECT_STATUS_OK(stream->Synchronize());
    std::vector<char> read(size);
    EXPECT_STATUS_OK(stream->Download(segment, 0, read.data(), size));
    EXPECT_TRUE(std::equal(read.begin(), read.end(), bytes.begin() + offset));
    std::memset(data, 0, kBytes);
    EXPECT_STATUS_OK(stream->DownloadTo(segment, 0, *memory, offset, size));
    EXPECT_TRUE(std::equal(read.begin(), read.end(), data + offset));
    std::memcpy(data, bytes.data(), kBytes);
  }
  // Ranges outside, and those that overflow.
  for (const auto& [offset, size] :
       std::vector<std::pair<uint64_t, uint64_t>>{{1, kBytes},
                                                  {kBytes + 1, 0},
                                                  {~uint64_t{0}, 2},
                                                  {8, ~uint64_t{0} - 4}}) {
    EXPECT_EQ(
        stream->UploadFrom(segment, 0, *memory, offset, size).status().code(),
        Code::kInvalidArgument);
    EXPECT_EQ(stream->DownloadTo(segment, 0, *memory, offset, size).code(),
              Code::kInvalidArgument);
  }
  // Another session has no business with it.
  auto other = Connect();
  auto other_stream = Value(other->CreateStream());
  const uint64_t other_segment = Value(other->CreateSegment(4096, nullptr));
  EXPECT_EQ(other_stream->UploadFrom(other_segment, 0, *memory, 0, 16)
                .status()
                .code(),
            Code::kInvalidArgument);
  EXPECT_STATUS_OK(stream->Synchronize());
}

TEST_P(SessionTest, HostMemoryOutlivesItsUseAndItsSession) {
  if (!SharesMemory(GetParam())) GTEST_SKIP() << "no shared memory";
  constexpr uint64_t kBytes = 1 << 20;
  auto session = Connect();
  auto stream = Value(session->CreateStream());
  const uint64_t segment = Value(session->CreateSegment(kBytes, nullptr));
  const uint64_t before = Value(session->GetMemoryInfo()).session_bytes;
  // Given back while its upload is queued.
  for (int i = 0; i < 300; ++i) {
    const auto memory = Value(session->CreateHostMemory(kBytes));
    std::memset(memory->data(), i, kBytes);
    ASSERT_TRUE(stream->UploadFrom(segment, 0, *memory, 0, kBytes).ok());
  }
  std::vector<char> read(kBytes);
  EXPECT_STATUS_OK(stream->Download(segment, 0, read.data(), kBytes));
  EXPECT_EQ(std::count(read.begin(), read.end(), static_cast<char>(299)),
            kBytes);
  // Only the ring that the download needed has come to stay.
  EXPECT_LE(Value(session->GetMemoryInfo()).session_bytes,
            before + (17u << 20));

  const auto kept = Value(session->CreateHostMemory(kBytes));
  stream.reset();
  session.reset();
  EXPECT_FALSE(kept->usable());
  std::memset(kept->data(), 1, kBytes);
}

TEST_P(SessionTest, CopiesInsideTheDevice) {
  auto session = Connect();
  auto stream = Value(session->CreateStream());
  const uint64_t a = Value(session->CreateSegment(4096, nullptr));
  const uint64_t b = Value(session->CreateSegment(4096, nullptr));
  const std::vector<char> bytes = Pattern(1000, 5);
  ASSERT_TRUE(stream->Upload(a, 24, bytes.data(), bytes.size()).ok());
  ASSERT_TRUE(stream->CopyBytes(b, 100, a, 24, bytes.size()).ok());
  std::vector<char> read(bytes.size());
  EXPECT_STATUS_OK(stream->Download(b, 100, read.data(), read.size()));
  EXPECT_EQ(read, bytes);
}

TEST_P(SessionTest, OutOfMemoryIsSynchronousAndPasses) {
  auto session = Connect();
  const auto segment = session->CreateSegment(uint64_t{1} << 30, nullptr);
  EXPECT_EQ(segment.status().code(), Code::kResourceExhausted);
  EXPECT_NE(segment.status().message().find(std::to_string(1 << 30)),
            std::string::npos)
      << segment.status().message();
  const auto absurd = session->CreateSegment(uint64_t{1} << 60, nullptr);
  EXPECT_FALSE(absurd.ok());
  const auto zero = session->CreateSegment(0, nullptr);
  EXPECT_EQ(zero.status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(session->CreateSegment(1 << 20, nullptr).ok());
}

TEST_P(SessionTest, AFullDeviceCanBeReadAndWritten) {
  constexpr uint64_t kPart = 8 << 20;
  auto session = Connect();
  auto stream = Value(session->CreateStream());
  std::vector<uint64_t> segments;
  for (;;) {
    const auto made = session->CreateSegment(kPart, nullptr);
    if (!made.ok()) break;
    segments.push_back(made.value());
  }
  ASSERT_EQ(segments.size(), 32u);
  const std::vector<char> bytes = Pattern(kPart, 4);
  for (const uint64_t size : {uint64_t{100}, uint64_t{100} << 10, kPart}) {
    EXPECT_STATUS_OK(
        stream->Upload(segments[7], 0, bytes.data(), size).status());
    std::vector<char> read(size);
    EXPECT_STATUS_OK(stream->Download(segments[7], 0, read.data(), size));
    EXPECT_TRUE(std::equal(read.begin(), read.end(), bytes.begin()));
  }
}

TEST_P(SessionTest, BadRangesLatchAndPass) {
  auto session = Connect();
  auto stream = Value(session->CreateStream());
  const uint64_t segment = Value(session->CreateSegment(4096, nullptr));
  std::vector<char> bytes(100);
  EXPECT_EQ(stream->Download(segment, 4000, bytes.data(), 100).code(),
            Code::kInvalidArgument);
  EXPECT_EQ(stream->Download(segment + 1000, 0, bytes.data(), 100).code(),
            Code::kInvalidArgument);
  ASSERT_TRUE(stream->Upload(segment, 4000, bytes.data(), 100).ok());
  const Status failure = stream->Synchronize();
  EXPECT_EQ(failure.code(), Code::kInvalidArgument);
  EXPECT_NE(failure.message().find("upload"), std::string::npos)
      << failure.message();
  EXPECT_FALSE(stream->Upload(segment, ~uint64_t{0}, bytes.data(), 100).ok());
  EXPECT_FALSE(stream->Upload(segment, 0, nullptr, 100).ok());
  EXPECT_STATUS_OK(stream->Synchronize());
  EXPECT_STATUS_OK(stream->Download(segment, 0, bytes.data(), 100));
}

TEST_P(SessionTest, ReleaseWaitsForQueuedWork) {
  auto session = Connect();
  auto stream = Value(session->CreateStream());
  const uint64_t kept = Value(session->CreateSegment(4096, nullptr));
  const std::vector<char> bytes = Pattern(4096, 9);
  for (int i = 0; i < 50; ++i) {
    const uint64_t segment = Value(session->CreateSegment(4096, nullptr));
    ASSERT_TRUE(stream->Upload(segment, 0, bytes.data(), 4096).ok());
    ASSERT_TRUE(stream->CopyBytes(kept, 0, segment, 0, 4096).ok());
    EXPECT_STATUS_OK(session->ReleaseSegments(&segment, 1));
  }
  std::vector<char> read(4096);
  EXPECT_STATUS_OK(stream->Download(kept, 0, read.data(), 4096));
  EXPECT_EQ(read, bytes);
  const uint64_t unknown = 123456;
  EXPECT_EQ(session->ReleaseSegments(&unknown, 1).code(),
            Code::kInvalidArgument);
}

TEST_P(SessionTest, RoundTripsAreCounted) {
  auto session = Connect();
  auto stream = Value(session->CreateStream());
  const uint64_t a = Value(session->CreateSegment(4096, nullptr));
  const uint64_t program = BinaryProgram(*session, PointwiseOp::kAdd);
  const uint64_t before = session->counters().round_trips;
  const Vector vector{a, 16};
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(LaunchBinary(*stream, program, vector, vector, vector).ok());
  }
  ASSERT_TRUE(stream->Upload(a, 0, &before, sizeof(before)).ok());
  EXPECT_EQ(session->counters().round_trips, before);
  EXPECT_STATUS_OK(stream->Synchronize());
  EXPECT_LE(session->counters().round_trips, before + 1);
  // Nothing left to wait for.
  const uint64_t after = session->counters().round_trips;
  EXPECT_STATUS_OK(stream->Synchronize());
  EXPECT_EQ(session->counters().round_trips, after);
  EXPECT_EQ(session->counters().launches, 200u);
  EXPECT_EQ(session->counters().records, 202u);  // program and upload, too
  EXPECT_LT(session->counters().batches, 202u);
}

TEST_P(SessionTest, LargeTransfersKeepTheOrderOfEventsAndThreads) {
  // More under way than the daemon holds, each stream waiting for the others.
  constexpr uint64_t kBytes = (3 << 20) + 5;
  constexpr int kStreams = 3;
  auto session = Connect();
  const uint64_t shared = Value(session->CreateSegment(kBytes, nullptr));
  std::vector<std::shared_ptr<Stream>> streams;
  std::vector<uint64_t> segments;
  for (int i = 0; i < kStreams; ++i) {
    streams.push_back(Value(session->CreateStream()));
    segments.push_back(Value(session->CreateSegment(kBytes, nullptr)));
  }
  // In turns: each copies what the one before has uploaded.
  for (int i = 0; i < 24; ++i) {
    Stream& stream = *streams[i % kStreams];
    const std::vector<char> bytes = Pattern(kBytes, i);
    ASSERT_TRUE(stream.Upload(shared, 0, bytes.data(), kBytes).ok());
    const uint64_t event = session->NewHandle();
    ASSERT_TRUE(stream.RecordEvent(event).ok());
    Stream& next = *streams[(i + 1) % kStreams];
    ASSERT_TRUE(next.WaitEvent(event).ok());
    ASSERT_TRUE(
        next.CopyBytes(segments[(i + 1) % kStreams], 0, shared, 0, kBytes)
            .ok());
  }
  std::vector<char> read(kBytes);
  EXPECT_STATUS_OK(streams[0]->Download(segments[0], 0, read.data(), kBytes));
  EXPECT_EQ(read, Pattern(kBytes, 23));

  std::vector<std::thread> threads;
  for (int i = 0; i < kStreams; ++i) {
    threads.emplace_back([&, i] {
      std::vector<char> mine(kBytes);
      for (int k = 0; k < 8; ++k) {
        const std::vector<char> bytes = Pattern(kBytes, 100 * i + k);
        EXPECT_TRUE(
            streams[i]->Upload(segments[i], 0, bytes.data(), kBytes).ok());
        EXPECT_STATUS_OK(
            streams[i]->Download(segments[i], 0, mine.data(), kBytes));
        EXPECT_EQ(mine, bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(SessionTest, LargeTransfersThatFailLeaveTheRestInOrder) {
  constexpr uint64_t kBytes = 2 << 20;
  auto session = Connect();
  auto stream = Value(session->CreateStream());
  const uint64_t segment = Value(session->CreateSegment(kBytes, nullptr));
  const std::vector<char> bytes = Pattern(kBytes, 1);
  std::vector<char> read(kBytes);
  // Often, so that credit which is lost would be missed.
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(stream->Upload(segment, 1, bytes.data(), kBytes).ok());
    EXPECT_EQ(stream->Synchronize().code(), Code::kInvalidArgument);
    ASSERT_TRUE(stream->Upload(segment + 1000, 0, bytes.data(), kBytes).ok());
    EXPECT_EQ(stream->Synchronize().code(), Code::kInvalidArgument);
    EXPECT_EQ(stream->Download(segment, 1, read.data(), kBytes).code(),
              Code::kInvalidArgument);
    EXPECT_EQ(stream->Download(segment + 1000, 0, read.data(), kBytes).code(),
              Code::kInvalidArgument);
  }
  ASSERT_TRUE(stream->Upload(segment, 0, bytes.data(), kBytes).ok());
  EXPECT_STATUS_OK(stream->Download(segment, 0, read.data(), kBytes));
  EXPECT_EQ(read, bytes);
}

TEST_P(SessionTest, TwoSessionsSeeNothingOfEachOther) {
  auto first = Connect();
  auto second = Connect();
  auto stream1 = Value(first->CreateStream());
  auto stream2 = Value(second->CreateStream());
  const uint64_t a = Value(first->CreateSegment(4096, nullptr));
  const uint64_t b = Value(second->CreateSegment(4096, nullptr));
  const std::vector<char> bytes = Pattern(4096, 3);
  ASSERT_TRUE(stream1->Upload(a, 0, bytes.data(), 4096).ok());
  EXPECT_STATUS_OK(stream1->Synchronize());
  std::vector<char> read(4096, 'x');
  EXPECT_STATUS_OK(stream2->Download(b, 0, read.data(), 4096));
  EXPECT_EQ(read, std::vector<char>(4096));
  first.reset();
  stream1.reset();
  EXPECT_STATUS_OK(stream2->Download(b, 0, read.data(), 4096));
}

}  // namespace
}  // namespace tvarant::client
