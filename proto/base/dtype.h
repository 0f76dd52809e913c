// Element types of tensors, as they stand on the wire.
//
// Plain C++ without dependencies, so that the client's public header can use
// it. The numbers are part of the protocol: never renumber, only append.
//
// Example:
//   size_t bytes = tvarant::SizeOf(tvarant::DType::kBFloat16);  // 2

#ifndef TVARANT_PROTO_BASE_DTYPE_H_
#define TVARANT_PROTO_BASE_DTYPE_H_

#include <cstddef>
#include <cstdint>

namespace tvarant {

enum class DType : uint8_t {
  kInvalid = 0,  // marks an absent optional operand
  kBool = 1,     // one byte, 0 or 1; any other byte reads as true
  kUInt8 = 2,
  kInt8 = 3,
  kInt16 = 4,
  kInt32 = 5,
  kInt64 = 6,
  kFloat16 = 7,
  kBFloat16 = 8,
  kFloat32 = 9,
  kFloat64 = 10,
  kComplex64 = 11,   // stored, copied and filled only
  kComplex128 = 12,  // stored, copied and filled only
  // Stored and copied bit by bit only.
  kUInt16 = 13,
  kUInt32 = 14,
  kUInt64 = 15,
};

inline constexpr int kNumDTypes = 16;

// True for the numbers above, kInvalid excluded.
constexpr bool IsKnown(DType dtype) {
  return dtype > DType::kInvalid && static_cast<int>(dtype) < kNumDTypes;
}

// Bytes of one element; 0 for kInvalid and unknown numbers.
constexpr size_t SizeOf(DType dtype) {
  constexpr uint8_t kSizes[kNumDTypes] = {0, 1, 1, 1, 2,  4, 8, 2,
                                          2, 4, 8, 8, 16, 2, 4, 8};
  return static_cast<int>(dtype) < kNumDTypes ? kSizes[static_cast<int>(dtype)]
                                              : 0;
}

// PyTorch's name of the type ("float32"); "invalid" for anything else.
constexpr const char* NameOf(DType dtype) {
  constexpr const char* kNames[kNumDTypes] = {
      "invalid",    "bool",    "uint8",    "int8",    "int16",   "int32",
      "int64",      "float16", "bfloat16", "float32", "float64", "complex64",
      "complex128", "uint16",  "uint32",   "uint64"};
  return static_cast<int>(dtype) < kNumDTypes ? kNames[static_cast<int>(dtype)]
                                              : "invalid";
}

constexpr bool IsFloating(DType dtype) {
  return dtype >= DType::kFloat16 && dtype <= DType::kFloat64;
}

constexpr bool IsComplex(DType dtype) {
  return dtype == DType::kComplex64 || dtype == DType::kComplex128;
}

// Signed, unsigned and bool types that kernels compute with.
constexpr bool IsIntegral(DType dtype) {
  return dtype >= DType::kBool && dtype <= DType::kInt64;
}

// The type in which a pointwise value of a dtype is computed. float16 and
// bfloat16 compute in float32; bool and the integers up to 32 bits in int32
// (stores truncate, so arithmetic wraps as in PyTorch); int64 in int64.
enum class ComputeClass : uint8_t { kNone = 0, kI32, kI64, kF32, kF64 };

constexpr ComputeClass ComputeClassOf(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUInt8:
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
      return ComputeClass::kI32;
    case DType::kInt64:
      return ComputeClass::kI64;
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat32:
      return ComputeClass::kF32;
    case DType::kFloat64:
      return ComputeClass::kF64;
    default:
      return ComputeClass::kNone;
  }
}

}  // namespace tvarant

#endif  // TVARANT_PROTO_BASE_DTYPE_H_
