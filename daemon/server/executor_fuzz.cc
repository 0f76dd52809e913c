// Bytes of a client as the batches of a stream, executed as the daemon does, on
// a session that has the handles of the record seeds.
//
// The size modulo 8 says after how many eighths of it a second batch begins; a
// whole number of records is one batch.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/runtime/fake_runtime.h"
#include "daemon/server/stream_executor.h"

namespace {

using namespace tvarant;

void Require(bool condition) {
  if (!condition) std::abort();
}

// Looks at the bytes that a kernel would read and write.
absl::Status Touch(const ResolvedLaunch& launch) {
  for (const auto* operands : {&launch.dst, &launch.src}) {
    for (const ResolvedOperand& operand : *operands) {
      if (operand.buffer == nullptr || operand.dtype == DType::kInvalid) {
        continue;
      }
      uint64_t last = operand.offset_bytes;
      bool empty = false;
      for (int i = 0; i < operand.rank; ++i) {
        empty = empty || operand.sizes[i] == 0;
        last += static_cast<uint64_t>(operand.sizes[i] - 1) *
                static_cast<uint64_t>(operand.strides[i]) *
                SizeOf(operand.dtype);
      }
      if (empty) continue;
      Require(last + SizeOf(operand.dtype) <= operand.buffer->size_bytes());
      char* const data = FakeData(operand);
      volatile char sink = *data;
      sink = data[last - operand.offset_bytes + SizeOf(operand.dtype) - 1];
      (void)sink;
    }
  }
  return absl::OkStatus();
}

std::string AddProgram() {
  ProgramBuilder builder;
  const int a = builder.Load(0, DType::kFloat32);
  const int b = builder.Load(1, DType::kFloat32);
  builder.Store(builder.Op(PointwiseOp::kAdd, DType::kFloat32, a, b));
  return builder.program().Serialize();
}

struct World {
  FakeRuntime runtime{{.memory_bytes = 1 << 20, .on_launch = Touch}};
  DeviceGate gate{1};
  BusyTracker busy;
  Counters counters;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes) {
  if (size_bytes > 1 << 16) return 0;
  static World& world = *new World;
  ProgramCache programs;
  SessionOptions options;
  options.id = 1;
  options.limits.max_bytes = 1 << 20;
  options.limits.max_segments = 8;
  options.limits.max_programs = 8;
  options.limits.max_events = 8;
  auto session = Session::Create(options, world.runtime, world.busy);
  Require(session.ok());
  // Waits for other streams end: these have ended.
  for (uint32_t i = 1; i < kMaxStreamsPerSession; ++i) {
    Require((*session)->board().Open(i));
    (*session)->board().Close(i);
  }
  // So do those for bytes of large transfers.
  (*session)->bulk().Close();
  {
    auto call = (*session)->BeginStreamCall([] {});
    Require(call.ok() && call->Open(0).ok());
    for (const uint64_t segment : {1, 2, 3, 5}) {
      Require((*session)->CreateSegment(segment, 4096, false).ok());
    }
    auto add = programs.Intern(AddProgram());
    Require(add.ok());
    Require((*session)->resources().DefineProgram(7, *std::move(add)).ok());
    Require((*session)->resources().CreateStaging(9, 4096).ok());
    const ExecutorContext context{world.runtime, world.gate, world.busy,
                                  programs, world.counters};
    auto executor = StreamExecutor::Create(context, **session, 0);
    Require(executor.ok());
    const std::string_view all(reinterpret_cast<const char*>(data), size_bytes);
    const size_t cut = size_bytes / 8 * (size_bytes % 8) / 8 * 8;
    uint64_t done = 0;
    const auto send = [&done](const v1::Completion& completion) {
      Require(completion.completed_sequence() >= done);
      done = completion.completed_sequence();
      return true;
    };
    for (const std::string_view part : {all.substr(0, cut), all.substr(cut)}) {
      // In memory of the exact size, so that a sanitizer sees a byte too many.
      const std::string batch(part);
      const absl::Status status = (*executor)->RunBatch(done + 1, batch, send);
      Require(status.ok() ||
              status.code() == absl::StatusCode::kInvalidArgument);
      if (!status.ok()) break;
    }
  }
  (*session)->End();
  Require((*session)->queued_bytes().load() == 0);
  return 0;
}
