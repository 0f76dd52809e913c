// What a launch costs: in the calling thread, in all, and to wait for.

#include <memory>
#include <random>
#include <string>

#include "tests/benchmarks/device/suite.h"

namespace tvarant::benchmarks {
namespace {

constexpr int64_t kElements = 16;
// Few enough that the client never has to wait for the daemon.
constexpr int kBatch = 2000;

// x = x + x on 16 numbers.
Status PrepareAdd(Device& device, Scope& scope,
                  std::shared_ptr<LaunchOf>* launch) {
  Tensor x;
  if (Status status = scope.Make(DType::kFloat32, {kElements}, &x, false);
      !status.ok()) {
    return status;
  }
  ProgramBuilder builder;
  const int a = builder.Load(0, DType::kFloat32);
  const int b = builder.Load(1, DType::kFloat32);
  builder.Store(builder.Op(PointwiseOp::kAdd, DType::kFloat32, a, b));
  auto program = device.session().DefineProgram(builder.program());
  if (!program.ok()) return program.status();
  *launch = std::make_shared<LaunchOf>(
      Kernel::kPointwise, std::vector<Tensor>{x}, std::vector<Tensor>{x, x});
  (*launch)->params().program = program.value();
  return Status();
}

// The calling thread alone: the wait is outside of what is timed.
Status MeasureClient(Device& device, Scope& scope, double seconds,
                     Timing* timing) {
  std::shared_ptr<LaunchOf> launch;
  if (Status status = PrepareAdd(device, scope, &launch); !status.ok()) {
    return status;
  }
  std::vector<double> samples;
  const double end = Now() + seconds;
  do {
    const double start = Now();
    for (int i = 0; i < kBatch; ++i) {
      if (Status status = device.Launch(*launch); !status.ok()) return status;
    }
    samples.push_back((Now() - start) / kBatch);
    if (Status status = device.stream().Synchronize(); !status.ok()) {
      return status;
    }
  } while (Now() < end || samples.size() < 3);
  // The first one compiles.
  samples.erase(samples.begin());
  *timing = Summarise(std::move(samples));
  return Status();
}

Status PrepareQueued(Device& device, Scope& scope, Turn* turn) {
  std::shared_ptr<LaunchOf> launch;
  if (Status status = PrepareAdd(device, scope, &launch); !status.ok()) {
    return status;
  }
  *turn = [&device, launch] { return device.Launch(*launch); };
  return Status();
}

Status PrepareWaited(Device& device, Scope& scope, Turn* turn) {
  std::shared_ptr<LaunchOf> launch;
  if (Status status = PrepareAdd(device, scope, &launch); !status.ok()) {
    return status;
  }
  *turn = [&device, launch] {
    if (Status status = device.Launch(*launch); !status.ok()) return status;
    return device.stream().Synchronize();
  };
  return Status();
}

// From a program that this daemon has never seen to its first result. A runtime
// that keeps compiled programs on disk has the fixed one after the first run.
Status MeasureFirstLaunch(Device& device, Scope& scope, bool fixed,
                          Timing* timing) {
  Tensor x;
  if (Status status = scope.Make(DType::kFloat32, {kElements}, &x);
      !status.ok()) {
    return status;
  }
  static constexpr PointwiseOp kOps[] = {PointwiseOp::kRelu, PointwiseOp::kSilu,
                                         PointwiseOp::kNeg,
                                         PointwiseOp::kSigmoid};
  std::mt19937_64 random(fixed ? 1 : std::random_device()());
  ProgramBuilder builder;
  int value = builder.Load(0, DType::kFloat32);
  for (int i = 0; i < 24; ++i) {
    value = builder.Op(kOps[random() % 4], DType::kFloat32, value);
  }
  builder.Store(value);
  const double start = Now();
  auto program = device.session().DefineProgram(builder.program());
  if (!program.ok()) return program.status();
  LaunchOf launch(Kernel::kPointwise, {x}, {x});
  launch.params().program = program.value();
  if (Status status = device.Launch(launch); !status.ok()) return status;
  if (Status status = device.stream().Synchronize(); !status.ok()) {
    return status;
  }
  *timing = Summarise({Now() - start});
  return Status();
}

}  // namespace

void AddLaunchRows(const Scale& /*scale*/, std::vector<Row>* rows) {
  Row row{.family = "launch", .dtype = DType::kFloat32, .sizes = {kElements}};
  row.name = "calling thread";
  row.measure = MeasureClient;
  rows->push_back(row);
  row.measure = nullptr;
  row.name = "queued, in all";
  row.peer = "small_add";
  row.prepare = PrepareQueued;
  rows->push_back(row);
  row.name = "launch and wait";
  row.peer = "small_add_wait";
  row.prepare = PrepareWaited;
  rows->push_back(row);
  row.peer.clear();
  row.prepare = nullptr;
  for (const bool fixed : {false, true}) {
    row.name = fixed ? "program of former runs" : "new program";
    row.measure = [fixed](Device& device, Scope& scope, double,
                          Timing* timing) {
      return MeasureFirstLaunch(device, scope, fixed, timing);
    };
    rows->push_back(row);
  }
}

}  // namespace tvarant::benchmarks
