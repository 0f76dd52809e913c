#include "proto/wire/record.h"

#include <cstring>

namespace tvarant {
namespace {

constexpr size_t RoundUp8(size_t size) { return (size + 7) & ~size_t{7}; }

template <typename T>
void Append(std::string* out, const T& value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void AppendHead(std::string* out, RecordKind kind, size_t size_bytes) {
  Append(out, RecordHead{static_cast<uint32_t>(size_bytes),
                         static_cast<uint8_t>(kind), kRecordVersion, 0});
}

void AppendPayload(std::string* out, const void* data, size_t bytes) {
  out->append(static_cast<const char*>(data), bytes);
  out->append(RoundUp8(bytes) - bytes, '\0');
}

size_t OperandBytes(const Operand& operand) {
  return sizeof(OperandHead) + operand.rank * 2 * sizeof(int64_t);
}

char* PutOperand(char* at, const Operand& operand) {
  const OperandHead head{operand.segment,
                         operand.offset_bytes,
                         static_cast<uint8_t>(operand.dtype),
                         operand.rank,
                         0,
                         0};
  std::memcpy(at, &head, sizeof(head));
  at += sizeof(head);
  const size_t bytes = operand.rank * sizeof(int64_t);
  if (bytes > 0) {
    std::memcpy(at, operand.sizes, bytes);
    std::memcpy(at + bytes, operand.strides, bytes);
  }
  return at + 2 * bytes;
}

const char* CheckOperands(const char* at, const char* end, int count) {
  for (int i = 0; i < count; ++i) {
    OperandHead head;
    if (static_cast<size_t>(end - at) < sizeof(head)) {
      return "launch record: operand is cut off";
    }
    std::memcpy(&head, at, sizeof(head));
    at += sizeof(head);
    const DType dtype = static_cast<DType>(head.dtype);
    if (head.reserved != 0 || head.reserved2 != 0) {
      return "launch record: reserved operand fields are not 0";
    }
    if (dtype != DType::kInvalid && !IsKnown(dtype)) {
      return "launch record: unknown dtype";
    }
    if (head.rank > kMaxRank) return "launch record: rank is too large";
    const size_t extents = head.rank * 2;
    if (static_cast<size_t>(end - at) < extents * sizeof(int64_t)) {
      return "launch record: operand is cut off";
    }
    for (size_t k = 0; k < extents; ++k) {
      int64_t value;
      std::memcpy(&value, at + k * sizeof(value), sizeof(value));
      if (value < 0) return "launch record: negative size or stride";
    }
    at += extents * sizeof(int64_t);
  }
  return at == end ? nullptr : "launch record: bytes left over";
}

const char* ParseLaunch(const char* body, const char* end, LaunchRecord* out) {
  if (static_cast<size_t>(end - body) < sizeof(LaunchHead)) {
    return "launch record: too short";
  }
  std::memcpy(&out->head, body, sizeof(LaunchHead));
  body += sizeof(LaunchHead);
  const LaunchHead& head = out->head;
  if (head.reserved != 0) return "launch record: reserved field is not 0";
  if (head.num_ints > kMaxInts || head.num_floats > kMaxFloats ||
      head.num_dst + head.num_src > kMaxOperands) {
    return "launch record: too many operands or parameters";
  }
  const size_t scalars = (size_t{head.num_ints} + head.num_floats) * 8;
  if (static_cast<size_t>(end - body) < scalars) {
    return "launch record: parameters are cut off";
  }
  out->ints = reinterpret_cast<const int64_t*>(body);
  out->floats = reinterpret_cast<const double*>(body + head.num_ints * 8);
  out->operands = body + scalars;
  out->end = end;
  return CheckOperands(out->operands, end, head.num_dst + head.num_src);
}

const char* ParseTransfer(const char* body, const char* end,
                          ParsedRecord* out) {
  if (static_cast<size_t>(end - body) < sizeof(TransferBody)) {
    return "transfer record: too short";
  }
  std::memcpy(&out->transfer, body, sizeof(TransferBody));
  body += sizeof(TransferBody);
  const size_t left = end - body;
  if (out->kind == RecordKind::kUpload ||
      out->kind == RecordKind::kDefineProgram) {
    if (out->transfer.bytes > kMaxInlineBytes ||
        RoundUp8(out->transfer.bytes) != left) {
      return "transfer record: payload has another size";
    }
    out->payload = body;
    return nullptr;
  }
  if (out->kind == RecordKind::kRead && out->transfer.bytes > kMaxInlineBytes) {
    return "transfer record: read is too large";
  }
  return left == 0 ? nullptr : "transfer record: bytes left over";
}

}  // namespace

bool RecordWriter::Launch(const LaunchParams& params) {
  const auto fits = [](int count, int limit) {
    return count >= 0 && count <= limit;
  };
  if (!fits(params.num_ints, kMaxInts) ||
      !fits(params.num_floats, kMaxFloats) ||
      !fits(params.num_dst, kMaxOperands) ||
      !fits(params.num_src, kMaxOperands - params.num_dst)) {
    return false;
  }
  size_t size = sizeof(RecordHead) + sizeof(LaunchHead) +
                (params.num_ints + params.num_floats) * 8;
  for (int i = 0; i < params.num_dst; ++i) {
    if (params.dst[i].rank > kMaxRank) return false;
    size += OperandBytes(params.dst[i]);
  }
  for (int i = 0; i < params.num_src; ++i) {
    if (params.src[i].rank > kMaxRank) return false;
    size += OperandBytes(params.src[i]);
  }
  if (size > kMaxRecordBytes) return false;
  const size_t start = out_->size();
  out_->resize(start + size);
  char* at = out_->data() + start;
  const RecordHead head{static_cast<uint32_t>(size),
                        static_cast<uint8_t>(RecordKind::kLaunch),
                        kRecordVersion, 0};
  std::memcpy(at, &head, sizeof(head));
  at += sizeof(head);
  const LaunchHead launch{
      .kernel = static_cast<uint16_t>(params.kernel),
      .act = static_cast<uint8_t>(params.act),
      .reserved = 0,
      .flags = params.flags,
      .num_ints = static_cast<uint16_t>(params.num_ints),
      .num_floats = static_cast<uint16_t>(params.num_floats),
      .num_dst = static_cast<uint16_t>(params.num_dst),
      .num_src = static_cast<uint16_t>(params.num_src),
      .program = params.program,
      .m = params.m,
      .n = params.n,
      .k = params.k,
      .batch = params.batch,
      .alpha = params.alpha,
      .beta = params.beta,
      .scalar = params.scalar,
  };
  std::memcpy(at, &launch, sizeof(launch));
  at += sizeof(launch);
  if (params.num_ints > 0) {
    std::memcpy(at, params.ints, params.num_ints * 8);
    at += params.num_ints * 8;
  }
  if (params.num_floats > 0) {
    std::memcpy(at, params.floats, params.num_floats * 8);
    at += params.num_floats * 8;
  }
  for (int i = 0; i < params.num_dst; ++i) at = PutOperand(at, params.dst[i]);
  for (int i = 0; i < params.num_src; ++i) at = PutOperand(at, params.src[i]);
  return true;
}

void RecordWriter::Upload(uint64_t segment, uint64_t offset_bytes,
                          const void* data, uint64_t bytes) {
  AppendHead(out_, RecordKind::kUpload,
             sizeof(RecordHead) + sizeof(TransferBody) + RoundUp8(bytes));
  Append(out_, TransferBody{.handle = segment,
                            .offset_bytes = offset_bytes,
                            .handle2 = 0,
                            .offset2_bytes = 0,
                            .bytes = bytes});
  AppendPayload(out_, data, bytes);
}

void RecordWriter::DefineProgram(uint64_t program,
                                 const std::string& serialized) {
  AppendHead(
      out_, RecordKind::kDefineProgram,
      sizeof(RecordHead) + sizeof(TransferBody) + RoundUp8(serialized.size()));
  Append(out_, TransferBody{.handle = program,
                            .offset_bytes = 0,
                            .handle2 = 0,
                            .offset2_bytes = 0,
                            .bytes = serialized.size()});
  AppendPayload(out_, serialized.data(), serialized.size());
}

void RecordWriter::Transfer(RecordKind kind, const TransferBody& body) {
  AppendHead(out_, kind, sizeof(RecordHead) + sizeof(TransferBody));
  Append(out_, body);
}

const char* ParseRecord(const char* data, size_t size, ParsedRecord* out) {
  RecordHead head;
  if (size < sizeof(head)) return "record: too short";
  std::memcpy(&head, data, sizeof(head));
  if (head.version != kRecordVersion) return "record: unknown version";
  if (head.reserved != 0) return "record: reserved field is not 0";
  if (head.size_bytes < sizeof(head) || head.size_bytes > size ||
      head.size_bytes > kMaxRecordBytes || head.size_bytes % 8 != 0) {
    return "record: bad size";
  }
  out->kind = static_cast<RecordKind>(head.kind);
  out->size_bytes = head.size_bytes;
  out->payload = nullptr;
  const char* body = data + sizeof(head);
  const char* end = data + head.size_bytes;
  switch (out->kind) {
    case RecordKind::kLaunch:
      return ParseLaunch(body, end, &out->launch);
    case RecordKind::kUpload:
    case RecordKind::kRead:
    case RecordKind::kUploadStaged:
    case RecordKind::kDownloadStaged:
    case RecordKind::kCopyBytes:
    case RecordKind::kDefineProgram:
    case RecordKind::kRecordEvent:
    case RecordKind::kWaitEvent:
    case RecordKind::kMarker:
    case RecordKind::kUploadBulk:
    case RecordKind::kDownloadBulk:
      return ParseTransfer(body, end, out);
  }
  return "record: unknown kind";
}

Operand NextOperand(const char** cursor) {
  OperandHead head;
  std::memcpy(&head, *cursor, sizeof(head));
  const char* extents = *cursor + sizeof(head);
  Operand operand;
  operand.segment = head.segment;
  operand.offset_bytes = head.offset_bytes;
  operand.dtype = static_cast<DType>(head.dtype);
  operand.rank = head.rank;
  operand.sizes = reinterpret_cast<const int64_t*>(extents);
  operand.strides = operand.sizes + head.rank;
  *cursor = extents + head.rank * 2 * sizeof(int64_t);
  return operand;
}

}  // namespace tvarant
