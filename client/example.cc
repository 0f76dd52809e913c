// Adds two vectors on a device of tvarantd.
//
//   bazel run //client:example -- unix:/run/tvarant/tvarant.sock
//
// Without an endpoint: example --daemon PATH starts a private tvarantd.

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "client/client.h"
#include "proto/ops/program.h"

namespace {

using tvarant::DType;
using tvarant::Kernel;
using tvarant::LaunchParams;
using tvarant::Operand;
using tvarant::PointwiseOp;
using tvarant::ProgramBuilder;
using tvarant::client::PrivateDaemon;
using tvarant::client::Session;
using tvarant::client::Status;
using tvarant::client::Stream;

constexpr int64_t kSize = 8;

int Fail(const Status& status) {
  std::fprintf(stderr, "example: %s\n", status.message().c_str());
  return 1;
}

Status Add(Session& session, float* sum) {
  float a[kSize], b[kSize];
  for (int i = 0; i < kSize; ++i) {
    a[i] = static_cast<float>(i);
    b[i] = 0.5f;
  }
  // One segment holds the three vectors; operands are 64 bytes apart.
  auto segment = session.CreateSegment(3 * 64, nullptr);
  if (!segment.ok()) return segment.status();
  auto stream = session.CreateStream();
  if (!stream.ok()) return stream.status();
  Stream& queue = *stream.value();

  ProgramBuilder builder;
  const int x = builder.Load(0, DType::kFloat32);
  const int y = builder.Load(1, DType::kFloat32);
  builder.Store(builder.Op(PointwiseOp::kAdd, DType::kFloat32, x, y));
  auto program = session.DefineProgram(builder.program());
  if (!program.ok()) return program.status();

  auto upload = queue.Upload(segment.value(), 0, a, sizeof(a));
  if (upload.ok()) upload = queue.Upload(segment.value(), 64, b, sizeof(b));
  if (!upload.ok()) return upload.status();

  const int64_t size = kSize, stride = 1;
  Operand operands[3];
  for (int i = 0; i < 3; ++i) {
    operands[i].segment = segment.value();
    operands[i].offset_bytes = 64 * static_cast<uint64_t>(i);
    operands[i].dtype = DType::kFloat32;
    operands[i].rank = 1;
    operands[i].sizes = &size;
    operands[i].strides = &stride;
  }
  LaunchParams params;
  params.kernel = Kernel::kPointwise;
  params.program = program.value();
  params.src = operands;
  params.num_src = 2;
  params.dst = operands + 2;
  params.num_dst = 1;
  auto launch = queue.Launch(params);  // returns at once
  if (!launch.ok()) return launch.status();
  return queue.Download(segment.value(), 128, sum, kSize * sizeof(float));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || (std::strcmp(argv[1], "--daemon") == 0 && argc < 3)) {
    std::fprintf(stderr, "usage: example ENDPOINT | --daemon PATH\n");
    return 64;
  }
  std::string endpoint = argv[1];
  std::unique_ptr<PrivateDaemon> daemon;
  if (endpoint == "--daemon") {
    auto started = PrivateDaemon::Start({.binary = argv[2]});
    if (!started.ok()) return Fail(started.status());
    daemon = std::move(started.value());
    endpoint = daemon->endpoint();
  }
  auto session = Session::Connect({.endpoint = endpoint});
  if (!session.ok()) return Fail(session.status());
  std::printf("device: %s\n", session.value()->properties().name.c_str());
  float sum[kSize];
  const Status status = Add(*session.value(), sum);
  if (!status.ok()) return Fail(status);
  for (const float value : sum) std::printf("%g ", value);
  std::printf("\n");
  return 0;
}
