// A number for the op tables that a program was built with.
//
// The client sends it when it opens a session; a daemon with other tables
// refuses, so that the two never disagree about what a number means.

#ifndef TVARANT_PROTO_OPS_OP_TABLE_HASH_H_
#define TVARANT_PROTO_OPS_OP_TABLE_HASH_H_

#include <cstdint>
#include <string_view>

#include "proto/base/dtype.h"
#include "proto/ops/op_ids.h"

namespace tvarant {

// One more for each change of what a kernel expects or does (kernels.md, the
// rules, an op without an expression) that no table row shows.
inline constexpr uint64_t kOpTableRevision = 1;

namespace op_table_internal {

// FNV-1a, 64 bits, with a separator after each field.
constexpr uint64_t Mix(uint64_t hash, std::string_view text) {
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  return (hash ^ 0xffu) * 0x100000001b3u;
}

constexpr uint64_t HashTables() {
  uint64_t hash = 0xcbf29ce484222325u ^ kOpTableRevision;
#define TVARANT_KERNEL(id, Name, name, min_dst, max_dst, min_src, max_src, \
                       doc)                                                \
  hash = Mix(hash, #id);                                                   \
  hash = Mix(hash, #name);                                                 \
  hash = Mix(hash, #min_dst "," #max_dst "," #min_src "," #max_src);
#include "proto/ops/kernels.inc"
#define TVARANT_POINTWISE_OP(code, Name, name, arity, types, result, expr, \
                             doc)                                          \
  hash = Mix(hash, #code);                                                 \
  hash = Mix(hash, #name);                                                 \
  hash = Mix(hash, #arity "," #types "," #result);                         \
  hash = Mix(hash, #expr);
#include "proto/ops/pointwise_ops.inc"
  for (int i = 0; i < kNumDTypes; ++i) {
    hash = Mix(hash, NameOf(static_cast<DType>(i)));
  }
  return hash;
}

}  // namespace op_table_internal

inline constexpr uint64_t kOpTableHash = op_table_internal::HashTables();

}  // namespace tvarant

#endif  // TVARANT_PROTO_OPS_OP_TABLE_HASH_H_
