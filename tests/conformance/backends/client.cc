// The CPU simulator behind the client library and a tvarantd process. The
// transport comes from TVARANT_CONFORMANCE_TRANSPORT:
//   mapped   device memory mapped into this process, tensors copied through
//            the mapping (the default)
//   staged   shared staging memory
//   remote   everything through gRPC, as for a daemon on another host

#include "client/client.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "tests/conformance/backend.h"

namespace tvarant::conformance {
namespace {

// Where Bazel puts the daemon, from a test's working directory.
constexpr char kDaemon[] = "daemon/tvarantd";

std::string Transport() {
  const char* transport = std::getenv("TVARANT_CONFORMANCE_TRANSPORT");
  return transport == nullptr ? "mapped" : transport;
}

absl::Status ToStatus(const client::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.code()),
                      status.message());
}

template <typename T>
absl::Status ToStatus(const client::Result<T>& result) {
  return ToStatus(result.status());
}

// Addresses reserved for the arena, without access until it is mapped there.
class Reservation {
 public:
  Reservation() = default;
  ~Reservation() {
    if (data_ != nullptr) ::munmap(data_, kArenaBytes);
  }
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  absl::Status Take() {
    void* data = ::mmap(nullptr, kArenaBytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) return absl::ErrnoToStatus(errno, "mmap");
    data_ = static_cast<char*>(data);
    return absl::OkStatus();
  }
  char* data() const { return data_; }  // null: nothing is reserved

 private:
  char* data_ = nullptr;
};

class ClientBackend : public Backend {
 public:
  static absl::StatusOr<std::unique_ptr<Backend>> Make() {
    auto backend = absl::WrapUnique(new ClientBackend);
    RETURN_IF_ERROR(backend->Connect());
    return backend;
  }

 private:
  ClientBackend() = default;

  absl::Status Connect() {
    const std::unique_ptr<char, decltype(&std::free)> binary(
        ::realpath(kDaemon, nullptr), &std::free);
    if (binary == nullptr) {
      return absl::NotFoundError(absl::StrCat("no ", kDaemon));
    }
    auto daemon = client::PrivateDaemon::Start({.binary = binary.get(),
                                                .runtime = "sim",
                                                .memory_bytes = 4 * kArenaBytes,
                                                .start_timeout_ms = 20000});
    RETURN_IF_ERROR(ToStatus(daemon));
    daemon_ = std::move(daemon.value());
    const std::string transport = Transport();
    client::ConnectOptions options;
    options.endpoint = daemon_->endpoint();
    options.map_memory = transport == "mapped";
    options.shared_memory = transport != "remote";
    auto session = client::Session::Connect(options);
    RETURN_IF_ERROR(ToStatus(session));
    session_ = session.value();
    if (options.map_memory) {
      if (!session_->memory_is_mapped()) {
        return absl::FailedPreconditionError("the memory is not mapped");
      }
      RETURN_IF_ERROR(mapping_.Take());
    }
    auto segment = session_->CreateSegment(kArenaBytes, mapping_.data());
    RETURN_IF_ERROR(ToStatus(segment));
    arena_ = segment.value();
    auto stream = session_->CreateStream();
    RETURN_IF_ERROR(ToStatus(stream));
    stream_ = stream.value();
    return absl::OkStatus();
  }

  absl::Status DoRun(const LaunchParams& params, const Program* program,
                     const std::vector<Tensor*>& tensors,
                     const std::vector<uint64_t>& addresses) override {
    for (size_t i = 0; i < tensors.size(); ++i) {
      RETURN_IF_ERROR(Write(addresses[i], *tensors[i]));
    }
    LaunchParams launch = params;
    const std::vector<Operand> dst = InArena(params.dst, params.num_dst);
    const std::vector<Operand> src = InArena(params.src, params.num_src);
    launch.dst = dst.data();
    launch.src = src.data();
    if (program != nullptr) {
      auto handle = session_->DefineProgram(*program);
      RETURN_IF_ERROR(ToStatus(handle));
      launch.program = handle.value();
    }
    RETURN_IF_ERROR(ToStatus(stream_->Launch(launch)));
    RETURN_IF_ERROR(ToStatus(stream_->Synchronize()));
    for (size_t i = 0; i < tensors.size(); ++i) {
      RETURN_IF_ERROR(Read(addresses[i], tensors[i]));
    }
    return absl::OkStatus();
  }

  // The stream is idle when these are called.
  absl::Status Write(uint64_t address, const Tensor& tensor) {
    const auto& bytes = tensor.bytes();
    if (mapping_.data() == nullptr) {
      return ToStatus(
          stream_->Upload(arena_, address, bytes.data(), bytes.size()));
    }
    if (!bytes.empty()) {
      std::memcpy(mapping_.data() + address, bytes.data(), bytes.size());
    }
    return absl::OkStatus();
  }
  absl::Status Read(uint64_t address, Tensor* tensor) {
    auto& bytes = tensor->bytes();
    if (mapping_.data() == nullptr) {
      return ToStatus(
          stream_->Download(arena_, address, bytes.data(), bytes.size()));
    }
    if (!bytes.empty()) {
      std::memcpy(bytes.data(), mapping_.data() + address, bytes.size());
    }
    return absl::OkStatus();
  }

  // The session made its own handle for the arena.
  std::vector<Operand> InArena(const Operand* operands, int count) const {
    std::vector<Operand> copies(operands, operands + count);
    for (Operand& operand : copies) {
      if (operand.segment == kArenaSegment) operand.segment = arena_;
    }
    return copies;
  }

  // Destroyed from the last to the first: the daemon ends last.
  std::unique_ptr<client::PrivateDaemon> daemon_;
  std::shared_ptr<client::Session> session_;
  std::shared_ptr<client::Stream> stream_;
  Reservation mapping_;
  uint64_t arena_ = 0;
};

}  // namespace

const BackendTraits& GetBackendTraits() {
  static const BackendTraits* const kTraits = new BackendTraits{
      .name = absl::StrCat("client_", Transport()),
      .unsupported = {},
      .expected_failures = {},
  };
  return *kTraits;
}

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend() {
  return ClientBackend::Make();
}

}  // namespace tvarant::conformance
