#include "tests/integration/daemon_fixture.h"

#include <cstdlib>

#include "proto/ops/program.h"

namespace tvarant::client {

std::string ModeName(Mode mode) {
  switch (mode) {
    case Mode::kMapped:
      return "Mapped";
    case Mode::kUnmapped:
      return "Unmapped";
    case Mode::kMessages:
      return "Messages";
    case Mode::kTcp:
      return "Tcp";
  }
  return "";
}

std::string DaemonBinary() {
  const char* given = std::getenv("TVARANT_DAEMON");
  // Bazel runs tests in the root of their files.
  return given != nullptr ? given : "daemon/tvarantd";
}

std::unique_ptr<PrivateDaemon> StartDaemon(uint64_t memory_bytes) {
  PrivateDaemonOptions options;
  options.binary = DaemonBinary();
  options.memory_bytes = memory_bytes;
  Result<std::unique_ptr<PrivateDaemon>> daemon = PrivateDaemon::Start(options);
  EXPECT_TRUE(daemon.ok()) << daemon.status().message();
  return std::move(daemon.value());
}

ConnectOptions OptionsFor(Mode mode, const std::string& endpoint) {
  ConnectOptions options;
  options.endpoint = endpoint;
  options.map_memory = mode == Mode::kMapped;
  options.shared_memory = SharesMemory(mode);
  options.client_name = "integration-test";
  return options;
}

Reservation::Reservation(uint64_t size_bytes) : size_bytes_(size_bytes) {
  void* data = ::mmap(nullptr, size_bytes, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  data_ = data == MAP_FAILED ? nullptr : static_cast<char*>(data);
}

Reservation::~Reservation() {
  if (data_ != nullptr) ::munmap(data_, size_bytes_);
}

uint64_t BinaryProgram(Session& session, PointwiseOp op) {
  ProgramBuilder builder;
  const int a = builder.Load(0, DType::kFloat32);
  const int b = builder.Load(1, DType::kFloat32);
  builder.Store(builder.Op(op, DType::kFloat32, a, b));
  return Value(session.DefineProgram(builder.program()));
}

Result<uint64_t> LaunchBinary(Stream& stream, uint64_t program, Vector dst,
                              Vector a, Vector b) {
  const Operand out = dst.operand();
  const Operand in[2] = {a.operand(), b.operand()};
  LaunchParams params;
  params.kernel = Kernel::kPointwise;
  params.program = program;
  params.dst = &out;
  params.num_dst = 1;
  params.src = in;
  params.num_src = 2;
  return stream.Launch(params);
}

Result<uint64_t> LaunchGather(Stream& stream, Vector dst, Vector table,
                              Vector index) {
  const Operand out = dst.operand();
  Operand in[2] = {table.operand(), index.operand()};
  in[1].dtype = DType::kInt64;
  const int64_t dim = 0;
  LaunchParams params;
  params.kernel = Kernel::kIndexSelect;
  params.ints = &dim;
  params.num_ints = 1;
  params.dst = &out;
  params.num_dst = 1;
  params.src = in;
  params.num_src = 2;
  return stream.Launch(params);
}

std::shared_ptr<Session> DaemonTest::Connect() { return Connect(GetParam()); }

std::shared_ptr<Session> DaemonTest::Connect(Mode mode) {
  Result<std::shared_ptr<Session>> session =
      Session::Connect(OptionsFor(mode, daemon_->endpoint()));
  EXPECT_TRUE(session.ok()) << session.status().message();
  return session.value();
}

}  // namespace tvarant::client
