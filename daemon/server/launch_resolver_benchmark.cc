// What the daemon pays for a launch before it runs: parse, rules, handles.

#include <benchmark/benchmark.h>

#include <cstring>
#include <string>
#include <vector>

#include "daemon/server/launch_resolver.h"

namespace tvarant {
namespace {

class FakeBuffer : public DeviceBuffer {
 public:
  explicit FakeBuffer(uint64_t size_bytes) : DeviceBuffer(size_bytes) {}
};

// c = a + b on [64, 64] of float32.
void BM_ResolveAdd(benchmark::State& state) {
  ProgramBuilder p;
  const int a = p.Load(0, DType::kFloat32), b = p.Load(1, DType::kFloat32);
  p.Store(p.Op(PointwiseOp::kAdd, DType::kFloat32, a, b));
  const Program program = std::move(p).Build();

  const int64_t sizes[2] = {64, 64}, strides[2] = {64, 1};
  Operand operand;
  operand.segment = 1;
  operand.dtype = DType::kFloat32;
  operand.rank = 2;
  operand.sizes = sizes;
  operand.strides = strides;
  const Operand src[2] = {operand, operand};
  LaunchParams params;
  params.kernel = Kernel::kPointwise;
  params.program = 1;
  params.dst = &operand;
  params.num_dst = 1;
  params.src = src;
  params.num_src = 2;
  std::string bytes;
  RecordWriter(&bytes).Launch(params);
  std::vector<uint64_t> words(bytes.size() / 8);
  std::memcpy(words.data(), bytes.data(), bytes.size());

  FakeBuffer buffer(1 << 20);
  LaunchResolver resolver;
  for (auto _ : state) {
    ParsedRecord record;
    if (ParseRecord(reinterpret_cast<const char*>(words.data()), bytes.size(),
                    &record) != nullptr) {
      state.SkipWithError("parse");
      break;
    }
    auto launch = resolver.Resolve(
        record.launch, [&](uint64_t) -> DeviceBuffer* { return &buffer; },
        [&](uint64_t) {
          return LaunchResolver::ProgramRef{.program = &program, .key = 1};
        });
    benchmark::DoNotOptimize(launch);
  }
}
BENCHMARK(BM_ResolveAdd);

}  // namespace
}  // namespace tvarant
