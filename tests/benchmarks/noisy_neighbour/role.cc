#include "tests/benchmarks/noisy_neighbour/role.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/benchmarks/device/device.h"

namespace tvarant::benchmarks {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWarmUps = 20;
constexpr std::chrono::milliseconds kPause{1};
// Launches of a flood that are under way, of all its streams.
constexpr size_t kDepth = 16;

Result<uint64_t> Define(client::Session& session) {
  ProgramBuilder builder;
  const int a = builder.Load(0, DType::kFloat32);
  const int b = builder.Load(1, DType::kFloat32);
  builder.Store(builder.Op(PointwiseOp::kAdd, DType::kFloat32, a, b));
  return session.DefineProgram(builder.program());
}

double Percentile(const std::vector<double>& sorted, double part) {
  const size_t at =
      static_cast<size_t>(part * static_cast<double>(sorted.size()));
  return sorted[std::min(at, sorted.size() - 1)];
}

Result<RoleResult> Small(Device& device, const LaunchOf& launch,
                         std::chrono::duration<double> time,
                         const std::function<void()>& ready) {
  const auto request = [&]() -> Status {
    if (Status s = device.Launch(launch); !s.ok()) return s;
    float value;
    return device.stream().Download(launch.params().dst[0].segment, 0, &value,
                                    sizeof(value));
  };
  for (int i = 0; i < kWarmUps; ++i) {
    if (Status s = request(); !s.ok()) return s;
  }
  ready();
  std::vector<double> times_us;
  const Clock::time_point end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(time);
  const Clock::time_point begin = Clock::now();
  do {
    const Clock::time_point before = Clock::now();
    if (Status s = request(); !s.ok()) return s;
    times_us.push_back(
        std::chrono::duration<double, std::micro>(Clock::now() - before)
            .count());
    std::this_thread::sleep_for(kPause);
  } while (Clock::now() < end);
  const double seconds =
      std::chrono::duration<double>(Clock::now() - begin).count();
  std::sort(times_us.begin(), times_us.end());
  return RoleResult{static_cast<double>(times_us.size()) / seconds,
                    Percentile(times_us, 0.5), Percentile(times_us, 0.99),
                    times_us.back()};
}

Result<RoleResult> Flood(Device& device, const LaunchOf& launch,
                         size_t num_streams, std::chrono::duration<double> time,
                         const std::function<void()>& ready) {
  std::vector<std::shared_ptr<client::Stream>> streams;
  for (size_t i = 0; i < num_streams; ++i) {
    auto stream = device.session().CreateStream();
    if (!stream.ok()) return stream.status();
    streams.push_back(std::move(stream.value()));
  }
  struct Pending {
    size_t stream;
    uint64_t sequence;
  };
  std::deque<Pending> pending;
  size_t next = 0;
  uint64_t done = 0;
  const auto step = [&]() -> Status {
    while (pending.size() < kDepth) {
      client::Stream& stream = *streams[next % num_streams];
      auto sequence = stream.Launch(launch.params());
      if (!sequence.ok()) return sequence.status();
      pending.push_back({next % num_streams, sequence.value()});
      ++next;
    }
    const Pending oldest = pending.front();
    pending.pop_front();
    ++done;
    return streams[oldest.stream]->Wait(oldest.sequence);
  };
  for (int i = 0; i < kWarmUps; ++i) {
    if (Status s = step(); !s.ok()) return s;
  }
  ready();
  done = 0;
  const Clock::time_point begin = Clock::now();
  const Clock::time_point end =
      begin + std::chrono::duration_cast<Clock::duration>(time);
  do {
    if (Status s = step(); !s.ok()) return s;
  } while (Clock::now() < end);
  return RoleResult{
      static_cast<double>(done) /
      std::chrono::duration<double>(Clock::now() - begin).count()};
}

}  // namespace

client::Result<RoleResult> RunRole(const std::string& role,
                                   const std::string& endpoint,
                                   std::chrono::duration<double> time,
                                   const std::function<void()>& ready) {
  DeviceOptions options;
  options.endpoint = endpoint;
  auto device = Device::Open(options);
  if (!device.ok()) return device.status();
  Scope scope(*device.value());
  const bool product = role == "gemm";
  const int64_t size = role == "small"    ? 16
                       : role == "medium" ? 1 << 20
                                          : 16 << 20;
  const Dims sizes = product ? Dims{1, 1024, 1024} : Dims{size};
  Tensor a, b, c;
  for (Tensor* tensor : {&a, &b, &c}) {
    if (Status s = scope.Make(DType::kFloat32, sizes, tensor); !s.ok()) {
      return s;
    }
  }
  LaunchOf launch(product ? Kernel::kGemm : Kernel::kPointwise, {c}, {a, b});
  if (product) {
    launch.params().batch = 1;
    launch.params().m = launch.params().n = launch.params().k = 1024;
  } else {
    auto program = Define(device.value()->session());
    if (!program.ok()) return program.status();
    launch.params().program = program.value();
  }
  if (role == "small") return Small(*device.value(), launch, time, ready);
  return Flood(*device.value(), launch, role == "streams" ? 8 : 1, time, ready);
}

}  // namespace tvarant::benchmarks
