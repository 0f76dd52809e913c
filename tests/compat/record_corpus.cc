// Prints the conversation of a client of today for corpus/: a session, a
// segment, one batch with each kind of record that needs no shared memory, a
// program, and launches of common kernels.

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "proto/ops/op_table_hash.h"
#include "proto/ops/op_table_rows.h"
#include "proto/ops/program.h"
#include "proto/tvarant/v1/device.pb.h"
#include "proto/wire/record.h"
#include "proto/wire/side_protocol.h"
#include "tvarant_version.h"

namespace {

using namespace tvarant;

constexpr uint64_t kSegment = 11;
constexpr uint64_t kProgram = 21;
constexpr uint64_t kEvent = 31;

std::string Hex(const std::string& bytes) {
  std::string out;
  char digits[3];
  for (const char c : bytes) {
    std::snprintf(digits, sizeof(digits), "%02x",
                  static_cast<unsigned char>(c));
    out += digits;
  }
  return out;
}

void Print(const std::string& word, const std::string& bytes) {
  std::printf("%s %s\n", word.c_str(), Hex(bytes).c_str());
}

void Print(const std::string& word, const google::protobuf::Message& message) {
  Print(word, message.SerializeAsString());
}

template <typename T>
std::string BytesOf(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()),
                     values.size() * sizeof(T));
}

// A dense operand at an offset of the segment.
struct Tensor {
  Tensor(uint64_t offset_bytes, DType dtype, std::vector<int64_t> shape)
      : sizes(std::move(shape)), strides(sizes.size()) {
    int64_t stride = 1;
    for (size_t i = sizes.size(); i-- > 0; stride *= sizes[i]) {
      strides[i] = stride;
    }
    operand.segment = kSegment;
    operand.offset_bytes = offset_bytes;
    operand.dtype = dtype;
    operand.rank = static_cast<uint8_t>(sizes.size());
    operand.sizes = sizes.data();
    operand.strides = strides.data();
  }
  std::vector<int64_t> sizes, strides;
  Operand operand;
};

// Batches of one stream.
class Stream {
 public:
  Stream() {
    v1::CommandBatch open;
    open.mutable_open()->set_stream(0);
    Print("send", open);
  }
  RecordWriter& Next() {
    ++count_;
    return writer_;
  }
  void Launch(LaunchParams params, const Tensor& dst,
              const std::vector<const Tensor*>& src) {
    std::vector<Operand> operands;
    for (const Tensor* tensor : src) operands.push_back(tensor->operand);
    params.dst = &dst.operand;
    params.num_dst = 1;
    params.src = operands.data();
    params.num_src = static_cast<int>(operands.size());
    if (!Next().Launch(params)) std::abort();
  }
  void Read(uint64_t offset_bytes, const std::string& want) {
    Next().Transfer(RecordKind::kRead, {.handle = kSegment,
                                        .offset_bytes = offset_bytes,
                                        .handle2 = 0,
                                        .offset2_bytes = 0,
                                        .bytes = want.size()});
    expected_ +=
        "read " + std::to_string(next_ + count_ - 1) + " " + Hex(want) + "\n";
  }
  void ExpectFailure(int code) {
    expected_ += "fail " + std::to_string(next_ + count_ - 1) + " " +
                 std::to_string(code) + "\n";
  }
  void Send() {
    v1::CommandBatch batch;
    batch.set_first_sequence(next_);
    batch.set_records(records_);
    Print("send", batch);
    std::fputs(expected_.c_str(), stdout);
    next_ += count_;
    count_ = 0;
    records_.clear();
    expected_.clear();
  }

 private:
  std::string records_;
  RecordWriter writer_{&records_};
  std::string expected_;
  uint64_t next_ = 1;
  uint64_t count_ = 0;
};

void OpenAndAttach() {
  v1::OpenSessionRequest open;
  open.set_min_protocol(1);
  open.set_max_protocol(1);
  open.set_client_name("corpus");
  open.set_client_version(kVersion);
  open.set_op_table_hash(kOpTableHash);
  // Of the ops that this conversation has.
  for (const OpTableRow& row : OpTableRows()) {
    for (const Kernel kernel :
         {Kernel::kPointwise, Kernel::kCopy, Kernel::kFill, Kernel::kReduce,
          Kernel::kGemm, Kernel::kSoftmax, Kernel::kIndexSelect}) {
      if (row.table == OpTable::kKernels &&
          row.id == static_cast<uint32_t>(kernel)) {
        open.add_op_rows(row.Packed());
      }
    }
    for (const PointwiseOp op :
         {PointwiseOp::kLoad, PointwiseOp::kAdd, PointwiseOp::kRelu}) {
      if (row.table == OpTable::kPointwiseOps &&
          row.id == static_cast<uint32_t>(op)) {
        open.add_op_rows(row.Packed());
      }
    }
  }
  Print("open", open);
  SideMessage attach{};
  std::memcpy(attach.magic, kSideMagic, sizeof(kSideMagic));
  attach.version = kSideVersion;
  attach.kind = SideKind::kAttach;
  Print("side",
        std::string(reinterpret_cast<const char*>(&attach), sizeof(attach)));
  v1::CreateSegmentRequest segment;
  segment.set_segment(kSegment);
  segment.set_size_bytes(8192);
  Print("segment", segment);
}

void Transfers(Stream* stream) {
  const std::string hello = "hello, world";
  stream->Next().Upload(kSegment, 4096, hello.data(), hello.size());
  stream->Next().Transfer(RecordKind::kCopyBytes, {.handle = kSegment,
                                                   .offset_bytes = 4112,
                                                   .handle2 = kSegment,
                                                   .offset2_bytes = 4096,
                                                   .bytes = hello.size()});
  stream->Read(4112, hello);
  for (const RecordKind kind : {RecordKind::kRecordEvent,
                                RecordKind::kWaitEvent, RecordKind::kMarker}) {
    stream->Next().Transfer(kind,
                            {.handle = kind == RecordKind::kMarker ? 0 : kEvent,
                             .offset_bytes = 0,
                             .handle2 = 0,
                             .offset2_bytes = 0,
                             .bytes = 0});
  }
  stream->Send();
}

void Launches(Stream* stream) {
  const Tensor a(0, DType::kFloat32, {2, 2}), b(16, DType::kFloat32, {2, 2}),
      y(256, DType::kFloat32, {2, 2}), sums(512, DType::kFloat32, {2, 1});
  stream->Next().Upload(kSegment, 0, BytesOf<float>({1, -2, 3, 4}).data(), 16);
  const int64_t two[2] = {0x40000000, 0};
  LaunchParams fill{.kernel = Kernel::kFill};
  fill.ints = two;
  fill.num_ints = 2;
  stream->Launch(fill, b, {});

  ProgramBuilder builder;
  const int x = builder.Load(0, DType::kFloat32);
  const int z = builder.Load(1, DType::kFloat32);
  const int sum = builder.Op(PointwiseOp::kAdd, DType::kFloat32, x, z, -1, 2.0);
  builder.Store(builder.Op(PointwiseOp::kRelu, DType::kFloat32, sum));
  stream->Next().DefineProgram(kProgram, builder.program().Serialize());
  LaunchParams pointwise{.kernel = Kernel::kPointwise};
  pointwise.program = kProgram;
  stream->Launch(pointwise, y, {&a, &b});
  stream->Read(256, BytesOf<float>({5, 2, 7, 8}));

  const int64_t reduce_sum[1] = {static_cast<int64_t>(ReduceOp::kSum)};
  LaunchParams reduce{.kernel = Kernel::kReduce};
  reduce.ints = reduce_sum;
  reduce.num_ints = 1;
  stream->Launch(reduce, sums, {&a});
  stream->Read(512, BytesOf<float>({-1, 7}));

  const Tensor a3(0, DType::kFloat32, {1, 2, 2}),
      b3(16, DType::kFloat32, {1, 2, 2}), y3(256, DType::kFloat32, {1, 2, 2});
  LaunchParams gemm{.kernel = Kernel::kGemm, .m = 2, .n = 2, .k = 2};
  gemm.batch = 1;
  stream->Launch(gemm, y3, {&a3, &b3});
  stream->Read(256, BytesOf<float>({-2, -2, 14, 14}));

  const int64_t dim[1] = {1};
  LaunchParams softmax{.kernel = Kernel::kSoftmax};
  softmax.ints = dim;
  softmax.num_ints = 1;
  stream->Launch(softmax, y, {&b});
  stream->Read(256, BytesOf<float>({0.5, 0.5, 0.5, 0.5}));
  const Tensor strided(256, DType::kFloat64, {2, 2});
  stream->Launch({.kernel = Kernel::kCopy}, strided, {&a});
  stream->Read(256, BytesOf<double>({1, -2, 3, 4}));
  stream->Send();
}

void Failures(Stream* stream) {
  const Tensor a(0, DType::kFloat32, {4}), index(1024, DType::kInt64, {1}),
      y(256, DType::kFloat32, {1});
  const int64_t seven = 7;
  stream->Next().Upload(kSegment, 1024, &seven, sizeof(seven));
  const int64_t dim[1] = {0};
  LaunchParams select{.kernel = Kernel::kIndexSelect};
  select.ints = dim;
  select.num_ints = 1;
  stream->Launch(select, y, {&a, &index});
  stream->ExpectFailure(11);  // OUT_OF_RANGE
  stream->Next().Transfer(RecordKind::kRead, {.handle = 999,
                                              .offset_bytes = 0,
                                              .handle2 = 0,
                                              .offset2_bytes = 0,
                                              .bytes = 4});
  stream->ExpectFailure(3);  // INVALID_ARGUMENT
  stream->Read(1024, BytesOf<int64_t>({7}));
  stream->Send();
}

}  // namespace

int main() {
  std::printf("# A client of tvarant %s, protocol 1.\n", kVersion);
  OpenAndAttach();
  Stream stream;
  Transfers(&stream);
  Launches(&stream);
  Failures(&stream);
  v1::ReleaseSegmentsRequest release;
  release.add_segments(kSegment);
  Print("release", release);
  Print("close", v1::CloseSessionRequest());
  return 0;
}
