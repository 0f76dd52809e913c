#include "daemon/server/server_test_util.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

#include "proto/ops/op_table_hash.h"

namespace tvarant {

TempFolder::TempFolder() {
  const char* base = ::getenv("TEST_TMPDIR");
  std::string pattern =
      std::string(base == nullptr ? "/tmp" : base) + "/tXXXXXX";
  // A socket's path is short; Bazel's folders may not be.
  if (pattern.size() > 60) pattern = "/tmp/tXXXXXX";
  if (::mkdtemp(pattern.data()) != nullptr) path_ = pattern;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

bool Eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

base::UniqueFd ConnectSocket(const std::string& path) {
  base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                sizeof(address)) != 0) {
    fd.reset();
  }
  const timeval timeout{10, 0};
  if (fd.ok()) {
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  }
  return fd;
}

bool IsClosedByPeer(int fd) {
  char bytes[256];
  for (;;) {
    const ssize_t got = ::recv(fd, bytes, sizeof(bytes), 0);
    if (got == 0) return true;
    if (got < 0) return errno == ECONNRESET;
  }
}

std::optional<SideReply> ReceiveSide(int socket) {
  SideReply reply;
  iovec part{&reply.message, sizeof(reply.message)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  if (::recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_WAITALL) !=
      sizeof(reply.message)) {
    return std::nullopt;
  }
  if (const cmsghdr* entry = CMSG_FIRSTHDR(&header)) {
    int fd;
    std::memcpy(&fd, CMSG_DATA(entry), sizeof(fd));
    reply.fd.reset(fd);
  }
  return reply;
}

SideMessage AttachMessage(const std::string& token) {
  SideMessage message{};
  std::memcpy(message.magic, kSideMagic, sizeof(kSideMagic));
  message.version = kSideVersion;
  message.kind = SideKind::kAttach;
  std::memcpy(message.token, token.data(),
              std::min(token.size(), sizeof(message.token)));
  return message;
}

bool SendAll(int socket, const void* data, size_t bytes) {
  return ::send(socket, data, bytes, MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes);
}

RawClient::RawClient(const std::string& socket_path)
    : socket_path_(socket_path) {
  grpc::ChannelArguments arguments;
  // Each client its own connection, as each process would have.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  channel_ = grpc::CreateCustomChannel(
      "unix:" + socket_path, grpc::InsecureChannelCredentials(), arguments);
  device_ = v1::DeviceService::NewStub(channel_);
  admin_ = v1::AdminService::NewStub(channel_);
}

v1::OpenSessionRequest RawClient::ValidOpenRequest() const {
  v1::OpenSessionRequest request;
  request.set_min_protocol(1);
  request.set_max_protocol(1);
  request.set_client_name("raw");
  request.set_client_version("test");
  request.set_op_table_hash(kOpTableHash);
  return request;
}

grpc::Status RawClient::Open() { return Open(ValidOpenRequest()); }

grpc::Status RawClient::Open(const v1::OpenSessionRequest& request) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(10));
  const grpc::Status status =
      device_->OpenSession(&context, request, &session_);
  token_ = session_.token();
  return status;
}

bool RawClient::Attach() {
  side_ = ConnectSocket(socket_path_);
  const SideMessage attach = AttachMessage(token_);
  if (!side_.ok() || !SendAll(side_.get(), &attach, sizeof(attach))) {
    return false;
  }
  const auto reply = ReceiveSide(side_.get());
  if (!reply.has_value() || reply->message.kind != SideKind::kAttached ||
      !reply->fd.ok()) {
    return false;
  }
  void* page = ::mmap(nullptr, kSharedPageBytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED, reply->fd.get(), 0);
  if (page == MAP_FAILED) return false;
  page_ = static_cast<SharedPage*>(page);
  return page_->magic == kSharedPageMagic && page_->version == 1;
}

std::unique_ptr<grpc::ClientContext> RawClient::Context() const {
  auto context = std::make_unique<grpc::ClientContext>();
  context->AddMetadata("tvarant-session-bin", token_);
  context->set_deadline(std::chrono::system_clock::now() +
                        std::chrono::seconds(20));
  return context;
}

grpc::Status RawClient::CreateSegment(uint64_t handle, uint64_t bytes,
                                      bool map) {
  v1::CreateSegmentRequest request;
  request.set_segment(handle);
  request.set_size_bytes(bytes);
  request.set_map_memory(map);
  v1::CreateSegmentResponse response;
  return device_->CreateSegment(Context().get(), request, &response);
}

grpc::Status RawClient::ReleaseSegments(
    const std::vector<uint64_t>& handles,
    const std::vector<v1::StreamPoint>& after) {
  v1::ReleaseSegmentsRequest request;
  for (const uint64_t handle : handles) request.add_segments(handle);
  for (const auto& point : after) *request.add_after() = point;
  v1::ReleaseSegmentsResponse response;
  return device_->ReleaseSegments(Context().get(), request, &response);
}

grpc::Status RawClient::CreateStaging(uint64_t handle, uint64_t bytes) {
  v1::CreateStagingRequest request;
  request.set_staging(handle);
  request.set_size_bytes(bytes);
  v1::CreateStagingResponse response;
  return device_->CreateStaging(Context().get(), request, &response);
}

grpc::Status RawClient::Close() {
  v1::CloseSessionRequest request;
  v1::CloseSessionResponse response;
  return device_->CloseSession(Context().get(), request, &response);
}

v1::GetMemoryInfoResponse RawClient::MemoryInfo() {
  v1::GetMemoryInfoRequest request;
  v1::GetMemoryInfoResponse response;
  EXPECT_TRUE(device_->GetMemoryInfo(Context().get(), request, &response).ok());
  return response;
}

RawStream::RawStream(RawClient& client, uint32_t number)
    : context_(client.Context()),
      io_(client.device().RunStream(context_.get())) {
  v1::CommandBatch open;
  open.mutable_open()->set_stream(number);
  v1::Completion answer;
  ok_ = io_->Write(open) && io_->Read(&answer) &&
        answer.completed_sequence() == 0;
}

RawStream::~RawStream() {
  if (finished_) return;
  context_->TryCancel();
  v1::Completion ignored;
  while (io_->Read(&ignored)) {
  }
  io_->Finish().ok();
}

bool RawStream::Send(const std::string& records, int count) {
  v1::CommandBatch batch;
  batch.set_first_sequence(next_);
  batch.set_records(records);
  next_ += static_cast<uint64_t>(count);
  return io_->Write(batch);
}

std::optional<v1::Completion> RawStream::Receive() {
  v1::Completion completion;
  if (!io_->Read(&completion)) return std::nullopt;
  return completion;
}

grpc::Status RawStream::Finish() {
  io_->WritesDone();
  v1::Completion ignored;
  while (io_->Read(&ignored)) {
  }
  finished_ = true;
  return io_->Finish();
}

std::string TransferRecord(RecordKind kind, const TransferBody& body) {
  std::string bytes;
  RecordWriter(&bytes).Transfer(kind, body);
  return bytes;
}

std::string ReadRecord(uint64_t segment, uint64_t offset, uint64_t bytes) {
  return TransferRecord(RecordKind::kRead, {.handle = segment,
                                            .offset_bytes = offset,
                                            .handle2 = 0,
                                            .offset2_bytes = 0,
                                            .bytes = bytes});
}

std::string UploadRecord(uint64_t segment, uint64_t offset,
                         const std::string& bytes) {
  std::string record;
  RecordWriter(&record).Upload(segment, offset, bytes.data(), bytes.size());
  return record;
}

std::string FillRecord(uint64_t segment, int64_t count) {
  const int64_t stride = 1;
  const int64_t ints[] = {0, 0};
  Operand dst;
  dst.segment = segment;
  dst.dtype = DType::kFloat32;
  dst.rank = 1;
  dst.sizes = &count;
  dst.strides = &stride;
  LaunchParams params;
  params.kernel = Kernel::kFill;
  params.ints = ints;
  params.num_ints = 2;
  params.dst = &dst;
  params.num_dst = 1;
  std::string record;
  EXPECT_TRUE(RecordWriter(&record).Launch(params));
  return record;
}

ServerFixture::ServerFixture(FakeRuntimeOptions runtime,
                             std::function<void(ServerOptions&)> change)
    : socket_path_(folder_.path() + "/s"), runtime_(std::move(runtime)) {
  ServerOptions options;
  options.listen = {"unix:" + socket_path_};
  options.device_width = 2;
  if (change != nullptr) change(options);
  auto server = Server::Start(std::move(options), runtime_);
  EXPECT_TRUE(server.ok()) << server.status();
  server_ = *std::move(server);
}

}  // namespace tvarant
