// Conversations of former clients (corpus/*.wire) with today's tvarantd.

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "daemon/daemon_process.h"
#include "daemon/server/server_test_util.h"
#include "proto/tvarant/v1/device.pb.h"
#include "proto/wire/side_protocol.h"

namespace tvarant {
namespace {

constexpr char kService[] = "/tvarant.v1.DeviceService/";
constexpr char kCorpus[] = "tests/compat/corpus";

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

grpc::ByteBuffer ToBuffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

std::string ToBytes(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (!buffer.Dump(&slices).ok()) return bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

// One call; every operation is waited for.
class RawCall {
 public:
  RawCall(grpc::GenericStub& stub, const std::string& method,
          const std::string& token) {
    if (!token.empty()) context_.AddMetadata("tvarant-session-bin", token);
    context_.set_deadline(std::chrono::system_clock::now() +
                          std::chrono::seconds(30));
    call_ = stub.PrepareCall(&context_, kService + method, &queue_);
    call_->StartCall(nullptr);
    good_ = Done();
  }
  ~RawCall() {
    context_.TryCancel();
    queue_.Shutdown();
    void* tag;
    bool ok;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  bool Write(const std::string& bytes) {
    if (!good_) return false;
    call_->Write(ToBuffer(bytes), nullptr);
    return Done();
  }
  bool Read(std::string* bytes) {
    grpc::ByteBuffer buffer;
    call_->Read(&buffer, nullptr);
    if (!Done()) return false;
    *bytes = ToBytes(buffer);
    return true;
  }
  grpc::Status Finish() {
    grpc::Status status;
    call_->WritesDone(nullptr);
    Done();
    call_->Finish(&status, nullptr);
    Done();
    return status;
  }

 private:
  bool Done() {
    void* tag;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  bool good_ = false;
};

class Replay {
 public:
  explicit Replay(const std::string& path)
      : path_(path),
        stub_(grpc::CreateChannel("unix:" + path,
                                  grpc::InsecureChannelCredentials())) {}

  void Line(const std::string& word, std::istringstream& rest) {
    std::string text;
    rest >> text;
    if (word == "open") {
      Open(FromHex(text));
    } else if (word == "side") {
      Attach(FromHex(text));
    } else if (word == "segment") {
      Unary("CreateSegment", FromHex(text));
    } else if (word == "release") {
      Unary("ReleaseSegments", FromHex(text));
    } else if (word == "close") {
      stream_.reset();
      Unary("CloseSession", FromHex(text));
    } else if (word == "send") {
      Send(FromHex(text));
    } else if (word == "read") {
      std::string want;
      rest >> want;
      EXPECT_EQ(ResultOf(std::stoull(text)), FromHex(want))
          << "record " << text;
    } else if (word == "fail") {
      int code = 0;
      rest >> code;
      EXPECT_EQ(FailureOf(std::stoull(text)), code) << "record " << text;
    } else {
      ADD_FAILURE() << "unknown word " << word;
    }
  }

 private:
  std::string Unary(const std::string& method, const std::string& request) {
    RawCall call(stub_, method, token_);
    std::string response;
    EXPECT_TRUE(call.Write(request)) << method;
    const bool answered = call.Read(&response);
    const grpc::Status status = call.Finish();
    EXPECT_TRUE(answered && status.ok()) << method << status.error_message();
    return response;
  }

  void Open(const std::string& request) {
    v1::OpenSessionResponse response;
    ASSERT_TRUE(response.ParseFromString(Unary("OpenSession", request)));
    token_ = response.token();
    ASSERT_EQ(token_.size(), sizeof(SideMessage::token));
  }

  void Attach(std::string message) {
    ASSERT_EQ(message.size(), sizeof(SideMessage));
    message.replace(offsetof(SideMessage, token), token_.size(), token_);
    side_ = ConnectSocket(path_);
    ASSERT_TRUE(SendAll(side_.get(), message.data(), message.size()));
    const auto reply = ReceiveSide(side_.get());
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(std::memcmp(&reply->message, message.data(), 4), 0);
    EXPECT_EQ(reply->message.kind, SideKind::kAttached);
    EXPECT_TRUE(reply->fd.ok());
  }

  void Send(const std::string& batch) {
    const bool opens = stream_ == nullptr;
    if (opens) stream_ = std::make_unique<RawCall>(stub_, "RunStream", token_);
    ASSERT_TRUE(stream_->Write(batch));
    if (opens) Receive();
  }

  bool Receive() {
    std::string bytes;
    v1::Completion completion;
    if (!stream_->Read(&bytes) || !completion.ParseFromString(bytes)) {
      return false;
    }
    for (const auto& read : completion.reads()) {
      reads_[read.sequence()] = read.data();
    }
    for (const auto& failure : completion.failures()) {
      failures_[failure.sequence()] = failure.code();
    }
    return true;
  }

  std::string ResultOf(uint64_t sequence) {
    while (reads_.count(sequence) == 0 && Receive()) {
    }
    return reads_[sequence];
  }
  int FailureOf(uint64_t sequence) {
    while (failures_.count(sequence) == 0 && Receive()) {
    }
    return failures_[sequence];
  }

  const std::string path_;
  grpc::GenericStub stub_;
  std::string token_;
  base::UniqueFd side_;
  std::unique_ptr<RawCall> stream_;
  std::map<uint64_t, std::string> reads_;
  std::map<uint64_t, int> failures_;
};

TEST(CompatTest, FormerClientsAreServed) {
  TempFolder folder;
  const std::string path = folder.path() + "/s";
  Daemon daemon({"--listen", "unix:" + path});
  ASSERT_EQ(daemon.ReadyText(), "ready\n");
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(kCorpus)) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  ASSERT_FALSE(files.empty());
  for (const std::string& name : files) {
    SCOPED_TRACE(name);
    std::ifstream file(name);
    Replay replay(path);
    int count = 0;
    for (std::string line; std::getline(file, line);) {
      if (line.empty() || line[0] == '#') continue;
      std::istringstream rest(line);
      std::string word;
      rest >> word;
      SCOPED_TRACE(line.substr(0, 60));
      replay.Line(word, rest);
      ASSERT_FALSE(HasFatalFailure());
      ++count;
    }
    EXPECT_GT(count, 10);
  }
}

}  // namespace
}  // namespace tvarant
