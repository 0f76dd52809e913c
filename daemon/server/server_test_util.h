// What tests of the server share: a daemon in this process, and a client of it
// made of raw gRPC stubs and sockets, which can do what the client library
// never would.

#ifndef TVARANT_DAEMON_SERVER_SERVER_TEST_UTIL_H_
#define TVARANT_DAEMON_SERVER_SERVER_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "daemon/runtime/fake_runtime.h"
#include "daemon/server/server.h"
#include "grpcpp/grpcpp.h"
#include "proto/base/unique_fd.h"
#include "proto/tvarant/v1/admin.grpc.pb.h"
#include "proto/tvarant/v1/device.grpc.pb.h"
#include "proto/wire/record.h"
#include "proto/wire/shared_page.h"
#include "proto/wire/side_protocol.h"

namespace tvarant {

// A folder of the test's own, removed with all that is in it.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// True once the condition holds; false after ten seconds.
bool Eventually(const std::function<bool()>& condition);

// A blocking socket connected to path; not ok() if that fails.
base::UniqueFd ConnectSocket(const std::string& path);
// True when the other end closes within ten seconds.
bool IsClosedByPeer(int fd);

// One message of the side protocol with what came with it.
struct SideReply {
  SideMessage message;
  base::UniqueFd fd;
};
std::optional<SideReply> ReceiveSide(int socket);
SideMessage AttachMessage(const std::string& token);
bool SendAll(int socket, const void* data, size_t bytes);

// One client process would be one of these.
class RawClient {
 public:
  explicit RawClient(const std::string& socket_path);

  v1::OpenSessionRequest ValidOpenRequest() const;
  grpc::Status Open();  // fills token
  grpc::Status Open(const v1::OpenSessionRequest& request);
  // Attaches the side connection and maps the page.
  bool Attach();
  // Ends the side connection, as the death of a process would.
  void Die() { side_.reset(); }

  grpc::Status CreateSegment(uint64_t handle, uint64_t bytes, bool map = false);
  grpc::Status ReleaseSegments(const std::vector<uint64_t>& handles,
                               const std::vector<v1::StreamPoint>& after = {});
  grpc::Status CreateStaging(uint64_t handle, uint64_t bytes);
  grpc::Status Close();
  v1::GetMemoryInfoResponse MemoryInfo();

  // A call with the token (or another) set.
  std::unique_ptr<grpc::ClientContext> Context() const;

  const std::string& token() const { return token_; }
  void set_token(std::string token) { token_ = std::move(token); }
  int side() const { return side_.get(); }
  SharedPage* page() { return page_; }
  v1::DeviceService::Stub& device() { return *device_; }
  v1::AdminService::Stub& admin() { return *admin_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  const v1::OpenSessionResponse& session() const { return session_; }

 private:
  std::string socket_path_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::DeviceService::Stub> device_;
  std::unique_ptr<v1::AdminService::Stub> admin_;
  std::string token_;
  v1::OpenSessionResponse session_;
  base::UniqueFd side_;
  SharedPage* page_ = nullptr;  // mapped until the process ends
};

// A command stream of a client.
class RawStream {
 public:
  // Opens stream `number` and waits for the answer; check ok().
  RawStream(RawClient& client, uint32_t number);
  ~RawStream();

  bool ok() const { return ok_; }
  // Sends records as the next batch; the count keeps the numbers right.
  bool Send(const std::string& records, int count);
  bool SendRaw(const v1::CommandBatch& batch) { return io_->Write(batch); }
  std::optional<v1::Completion> Receive();
  // Half-closes and waits for the end.
  grpc::Status Finish();
  void Cancel() { context_->TryCancel(); }
  uint64_t last_sequence() const { return next_ - 1; }

 private:
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::CommandBatch, v1::Completion>>
      io_;
  bool ok_ = false;
  bool finished_ = false;
  uint64_t next_ = 1;
};

// Records for RawStream::Send.
std::string ReadRecord(uint64_t segment, uint64_t offset, uint64_t bytes);
std::string UploadRecord(uint64_t segment, uint64_t offset,
                         const std::string& bytes);
std::string TransferRecord(RecordKind kind, const TransferBody& body);
// Fills `count` floats at the start of a segment.
std::string FillRecord(uint64_t segment, int64_t count);

// A server on a socket of its own.
class ServerFixture {
 public:
  explicit ServerFixture(FakeRuntimeOptions runtime = {},
                         std::function<void(ServerOptions&)> change = nullptr);
  const std::string& socket_path() const { return socket_path_; }
  const TempFolder& folder() const { return folder_; }
  Server& server() { return *server_; }
  FakeRuntime& runtime() { return runtime_; }
  uint64_t Count(Counter counter) { return server_->counters().Get(counter); }

 private:
  TempFolder folder_;
  std::string socket_path_;
  FakeRuntime runtime_;
  std::unique_ptr<Server> server_;
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_SERVER_SERVER_TEST_UTIL_H_
