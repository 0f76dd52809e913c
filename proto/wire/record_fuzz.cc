// Bytes of a client as a batch: every record is parsed, and every launch
// checked against its rule as the daemon does, without leaving the bytes.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "proto/ops/program.h"
#include "proto/ops/shape_rules.h"
#include "proto/wire/record.h"

namespace {

using tvarant::LaunchParams;
using tvarant::LaunchRecord;
using tvarant::Operand;

void Require(bool condition) {
  if (!condition) std::abort();
}

const tvarant::Program& AddProgram() {
  static const tvarant::Program* const kProgram = [] {
    tvarant::ProgramBuilder p;
    const int a = p.Load(0, tvarant::DType::kFloat32);
    const int b = p.Load(1, tvarant::DType::kFloat32);
    p.Store(p.Op(tvarant::PointwiseOp::kAdd, tvarant::DType::kFloat32, a, b));
    return new tvarant::Program(std::move(p).Build());
  }();
  return *kProgram;
}

void CheckLaunchRecord(const LaunchRecord& record) {
  const tvarant::LaunchHead& head = record.head;
  std::vector<Operand> operands(head.num_dst + head.num_src);
  const char* cursor = record.operands;
  for (Operand& operand : operands) operand = tvarant::NextOperand(&cursor);
  Require(cursor == record.end);
  LaunchParams params;
  params.kernel = static_cast<tvarant::Kernel>(head.kernel);
  params.act = static_cast<tvarant::Act>(head.act);
  params.flags = head.flags;
  params.m = head.m;
  params.n = head.n;
  params.k = head.k;
  params.batch = head.batch;
  params.ints = record.ints;
  params.num_ints = head.num_ints;
  params.floats = record.floats;
  params.num_floats = head.num_floats;
  params.dst = operands.data();
  params.num_dst = head.num_dst;
  params.src = operands.data() + head.num_dst;
  params.num_src = head.num_src;
  (void)tvarant::CheckLaunch(params,
                             head.program % 2 == 0 ? nullptr : &AddProgram());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes) {
  if (size_bytes > 2 * tvarant::kMaxRecordBytes) return 0;
  // Batches stand at 8-byte boundaries; the copy is of the exact size, so
  // that a sanitizer sees one byte too many.
  std::vector<uint64_t> words((size_bytes + 7) / 8);
  if (size_bytes > 0) std::memcpy(words.data(), data, size_bytes);
  const char* at = reinterpret_cast<const char*>(words.data());
  size_t left = size_bytes / 8 * 8;
  while (left > 0) {
    tvarant::ParsedRecord record;
    if (tvarant::ParseRecord(at, left, &record) != nullptr) break;
    Require(record.size_bytes > 0 && record.size_bytes <= left);
    if (record.kind == tvarant::RecordKind::kLaunch) {
      CheckLaunchRecord(record.launch);
    }
    at += record.size_bytes;
    left -= record.size_bytes;
  }
  return 0;
}
