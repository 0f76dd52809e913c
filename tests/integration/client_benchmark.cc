// What the client library costs: launches, round trips, bytes.

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "proto/wire/record.h"
#include "tests/integration/daemon_fixture.h"

namespace tvarant::client {
namespace {

// One daemon for all benchmarks of a mode; ends with the process.
struct Fixture {
  explicit Fixture(Mode mode) {
    daemon = StartDaemon(uint64_t{1} << 30);
    session = Value(Session::Connect(OptionsFor(mode, daemon->endpoint())));
    stream = Value(session->CreateStream());
    x = {Value(session->CreateSegment(4096, nullptr)), 16};
    add = BinaryProgram(*session, PointwiseOp::kAdd);
  }

  std::unique_ptr<PrivateDaemon> daemon;
  std::shared_ptr<Session> session;
  std::shared_ptr<Stream> stream;
  Vector x{};
  uint64_t add = 0;
};

void Encode(benchmark::State& state) {
  const Vector vector{1, 16};
  const Operand operands[3] = {vector.operand(), vector.operand(),
                               vector.operand()};
  LaunchParams params;
  params.kernel = Kernel::kPointwise;
  params.program = 7;
  params.dst = operands;
  params.num_dst = 1;
  params.src = operands + 1;
  params.num_src = 2;
  std::string out;
  RecordWriter writer(&out);
  for (auto _ : state) {
    if (out.size() > (32 << 10)) out.clear();
    benchmark::DoNotOptimize(writer.Launch(params));
  }
}
BENCHMARK(Encode);

Mode ModeOf(const benchmark::State& state) {
  return static_cast<Mode>(state.range(0));
}

void Launches(benchmark::State& state, bool with_wait) {
  Fixture fixture(ModeOf(state));
  constexpr int kLaunches = 20000;
  for (auto _ : state) {
    for (int i = 0; i < kLaunches; ++i) {
      if (!LaunchBinary(*fixture.stream, fixture.add, fixture.x, fixture.x,
                        fixture.x)
               .ok()) {
        state.SkipWithError("launch failed");
        return;
      }
    }
    if (!with_wait) state.PauseTiming();
    if (!fixture.stream->Synchronize().ok()) state.SkipWithError("failed");
    if (!with_wait) state.ResumeTiming();
  }
  const Counters counters = fixture.session->counters();
  state.SetItemsProcessed(state.iterations() * kLaunches);
  state.counters["per_batch"] = static_cast<double>(counters.records) /
                                static_cast<double>(counters.batches);
}

// What an eager loop of 20,000 launches costs the calling thread.
void LaunchOnly(benchmark::State& state) { Launches(state, false); }
BENCHMARK(LaunchOnly)->Arg(0)->Arg(2)->UseRealTime()->MeasureProcessCPUTime();

void LaunchThenSynchronize(benchmark::State& state) { Launches(state, true); }
BENCHMARK(LaunchThenSynchronize)->Arg(0)->Arg(2)->UseRealTime();

// The yardstick of the next one.
void UnaryRoundTrip(benchmark::State& state) {
  Fixture fixture(ModeOf(state));
  for (auto _ : state) {
    benchmark::DoNotOptimize(fixture.session->GetMemoryInfo());
  }
}
BENCHMARK(UnaryRoundTrip)->Arg(0)->UseRealTime();

void LaunchAndWait(benchmark::State& state) {
  Fixture fixture(ModeOf(state));
  for (auto _ : state) {
    const auto sequence = LaunchBinary(*fixture.stream, fixture.add, fixture.x,
                                       fixture.x, fixture.x);
    if (!fixture.stream->Wait(sequence.value()).ok()) {
      state.SkipWithError("failed");
      return;
    }
  }
}
BENCHMARK(LaunchAndWait)->Arg(0)->Arg(2)->UseRealTime();

void SmallDownload(benchmark::State& state) {
  Fixture fixture(ModeOf(state));
  float value;
  for (auto _ : state) {
    if (!fixture.stream->Download(fixture.x.segment, 0, &value, 4).ok()) {
      state.SkipWithError("failed");
      return;
    }
  }
}
BENCHMARK(SmallDownload)->Arg(1)->Arg(2)->UseRealTime();

constexpr uint64_t kLargeBytes = 64 << 20;

void HostCopy(benchmark::State& state) {
  const std::vector<char> from(kLargeBytes, 1);
  std::vector<char> to(kLargeBytes, 2);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), kLargeBytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * kLargeBytes);
}
BENCHMARK(HostCopy)->UseRealTime()->Unit(benchmark::kMillisecond);

void UploadLarge(benchmark::State& state) {
  Fixture fixture(ModeOf(state));
  const uint64_t segment =
      Value(fixture.session->CreateSegment(kLargeBytes, nullptr));
  const std::vector<char> from(kLargeBytes, 1);
  for (auto _ : state) {
    if (!fixture.stream->Upload(segment, 0, from.data(), kLargeBytes).ok() ||
        !fixture.stream->Synchronize().ok()) {
      state.SkipWithError("failed");
      return;
    }
  }
  state.SetBytesProcessed(state.iterations() * kLargeBytes);
}
BENCHMARK(UploadLarge)
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void DownloadLarge(benchmark::State& state) {
  Fixture fixture(ModeOf(state));
  const uint64_t segment =
      Value(fixture.session->CreateSegment(kLargeBytes, nullptr));
  std::vector<char> to(kLargeBytes, 1);
  for (auto _ : state) {
    if (!fixture.stream->Download(segment, 0, to.data(), kLargeBytes).ok()) {
      state.SkipWithError("failed");
      return;
    }
  }
  state.SetBytesProcessed(state.iterations() * kLargeBytes);
}
BENCHMARK(DownloadLarge)
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// Bytes that may travel in the record or through staging memory.
void UploadSmall(benchmark::State& state) {
  Fixture fixture(Mode::kUnmapped);
  const uint64_t bytes = static_cast<uint64_t>(state.range(0));
  const uint64_t segment =
      Value(fixture.session->CreateSegment(1 << 20, nullptr));
  const std::vector<char> from(bytes, 1);
  for (auto _ : state) {
    for (int i = 0; i < 64; ++i) {
      if (!fixture.stream->Upload(segment, 0, from.data(), bytes).ok()) {
        state.SkipWithError("failed");
        return;
      }
    }
    if (!fixture.stream->Synchronize().ok()) state.SkipWithError("failed");
  }
  state.SetBytesProcessed(state.iterations() * 64 *
                          static_cast<int64_t>(bytes));
}
BENCHMARK(UploadSmall)->Range(1 << 10, 64 << 10)->UseRealTime();

}  // namespace
}  // namespace tvarant::client
