// The CPU simulator behind the client library and a tvarantd process. The
// transport comes from TVARANT_CONFORMANCE_TRANSPORT:
//   mapped   device memory mapped into this process (the default)
//   staged   shared staging memory
//   remote   everything through gRPC, as for a daemon on another host

#include "client/client.h"

#include <cstdlib>
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
    auto segment = session_->CreateSegment(kArenaBytes, nullptr);
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
      RETURN_IF_ERROR(ToStatus(stream_->Upload(arena_, addresses[i],
                                               tensors[i]->bytes().data(),
                                               tensors[i]->bytes().size())));
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
      RETURN_IF_ERROR(ToStatus(stream_->Download(arena_, addresses[i],
                                                 tensors[i]->bytes().data(),
                                                 tensors[i]->bytes().size())));
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
