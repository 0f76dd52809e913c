// Packed records: the hot commands of a stream, as they stand in
// CommandBatch.records and Completion.
//
// A batch is a run of records, each 8-byte aligned, little endian:
//
//   RecordHead  {u32 size_bytes (whole record, multiple of 8), u8 kind,
//                u8 version, u16 reserved (0)}
//   body by kind
//
// Record i of a batch has sequence number batch.first_sequence + i. One
// encoder (RecordWriter) and one validator (ParseRecord) serve client, daemon,
// tests and fuzzing. Nothing here trusts its input: counts and sizes are
// checked before use, and no memory is reserved from a number on the wire.

#ifndef TVARANT_PROTO_WIRE_RECORD_H_
#define TVARANT_PROTO_WIRE_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "proto/wire/launch_params.h"

namespace tvarant {

inline constexpr uint8_t kRecordVersion = 1;
inline constexpr size_t kMaxRecordBytes = 1 << 20;
inline constexpr size_t kMaxInlineBytes = 64 << 10;  // inline upload and read

enum class RecordKind : uint8_t {
  kLaunch = 1,
  kUpload = 2,          // bytes in the record -> segment
  kRead = 3,            // segment -> bytes in the Completion
  kUploadStaged = 4,    // staging memory -> segment
  kDownloadStaged = 5,  // segment -> staging memory
  kCopyBytes = 6,       // segment -> segment
  kDefineProgram = 7,   // bytes of a Program under a client-made handle
  kRecordEvent = 8,     // event := this point of the stream
  kWaitEvent = 9,       // later commands wait for the event
  kMarker = 10,         // does nothing; its completion has a time
  kUploadBulk = 11,     // bytes of the bulk stream -> segment
  kDownloadBulk = 12,   // segment -> the bulk stream
};

struct RecordHead {
  uint32_t size_bytes;
  uint8_t kind;
  uint8_t version;
  uint16_t reserved;
};
static_assert(sizeof(RecordHead) == 8);

// Body of kLaunch: this head, then num_ints int64, num_floats double, then
// dst and src operands: OperandHead, sizes[rank], strides[rank] as int64.
struct LaunchHead {
  uint16_t kernel;
  uint8_t act;
  uint8_t reserved;
  uint32_t flags;
  uint16_t num_ints;
  uint16_t num_floats;
  uint16_t num_dst;
  uint16_t num_src;
  uint64_t program;
  int64_t m, n, k, batch;
  double alpha, beta, scalar;
};
static_assert(sizeof(LaunchHead) == 80);

struct OperandHead {
  uint64_t segment;
  uint64_t offset_bytes;
  uint8_t dtype;
  uint8_t rank;
  uint16_t reserved;
  uint32_t reserved2;
};
static_assert(sizeof(OperandHead) == 24);

// Body of every kind but kLaunch and kDefineProgram; unused fields are 0.
// kUpload: payload of `bytes` follows (padded to 8). kDefineProgram: handle =
// program, bytes = payload size, payload follows. kWaitEvent: handle2 = 1 +
// number of the stream of this session that recorded the event last and
// offset2_bytes = the sequence number of that record, so that the order holds
// although each stream has its own connection; the wait ends when that stream
// has passed it, whether the record has arrived yet or not. handle2 = 0: the
// point is not known, the event counts as the daemon knows it.
struct TransferBody {
  uint64_t handle;         // segment, program or event
  uint64_t offset_bytes;   // in the segment
  uint64_t handle2;        // kCopyBytes: source segment; k*Staged: staging;
                           // k*Bulk: the transfer, whose bytes RunBulk carries;
                           // kWaitEvent: number of the stream + 1, or 0
  uint64_t offset2_bytes;  // staging offset, or offset in the source segment;
                           // kWaitEvent: sequence number in that stream
  uint64_t bytes;
};
static_assert(sizeof(TransferBody) == 40);

// Appends records to a byte string. Thread-compatible.
class RecordWriter {
 public:
  explicit RecordWriter(std::string* out) : out_(out) {}

  // False, and nothing appended, if a count or rank is over its limit.
  bool Launch(const LaunchParams& params);
  void Upload(uint64_t segment, uint64_t offset_bytes, const void* data,
              uint64_t bytes);
  void DefineProgram(uint64_t program, const std::string& serialized);
  void Transfer(RecordKind kind, const TransferBody& body);

 private:
  std::string* out_;
};

// A launch read in place: pointers go into the batch's bytes, except for
// operands, whose heads are unpacked on demand.
struct LaunchRecord {
  LaunchHead head;
  const int64_t* ints;   // [num_ints], 8-byte aligned
  const double* floats;  // [num_floats]
  const char* operands;  // num_dst + num_src packed operands
  const char* end;
};

struct ParsedRecord {
  RecordKind kind;
  size_t size_bytes;
  LaunchRecord launch;    // kLaunch
  TransferBody transfer;  // the others
  const char* payload;    // kUpload, kDefineProgram: transfer.bytes bytes
};

// Reads the record at data (8-byte aligned; size = bytes left in the batch).
// Returns null and fills *out, or a static text that says what is wrong. After
// success every operand can be unpacked with NextOperand; ranks, dtypes,
// counts, signs of sizes and strides have been checked, handles have not.
const char* ParseRecord(const char* data, size_t size, ParsedRecord* out);

// Unpacks one operand at *cursor of a checked launch and moves past it. sizes
// and strides point into the record.
Operand NextOperand(const char** cursor);

}  // namespace tvarant

#endif  // TVARANT_PROTO_WIRE_RECORD_H_
