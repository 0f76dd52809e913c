// The rows of the op tables as numbers, so that a daemon can tell whether it
// knows all that an older client may send.
//
// A client sends its rows when it opens a session. A daemon that has each of
// them, with the same meaning, serves it, whatever rows it has beyond: tables
// grow, and a client of a former version goes on working. (op_table_hash.h has
// one number for all rows together, for clients that send no rows.)

#ifndef TVARANT_PROTO_OPS_OP_TABLE_ROWS_H_
#define TVARANT_PROTO_OPS_OP_TABLE_ROWS_H_

#include <cstdint>
#include <vector>

#include "proto/ops/op_table_hash.h"

namespace tvarant {

enum class OpTable : uint32_t { kKernels = 1, kPointwiseOps = 2, kDTypes = 3 };

struct OpTableRow {
  OpTable table;
  uint32_t id;    // number on the wire, below 2^16
  uint32_t hash;  // of what the number means

  constexpr uint64_t Packed() const {
    return static_cast<uint64_t>(table) << 48 |
           static_cast<uint64_t>(id) << 32 | hash;
  }
};

// In the order of the tables.
inline std::vector<OpTableRow> OpTableRows() {
  using op_table_internal::Mix;
  constexpr uint64_t kStart = 0xcbf29ce484222325u ^ kOpTableRevision;
  const auto fold = [](uint64_t hash) {
    return static_cast<uint32_t>(hash ^ (hash >> 32));
  };
  std::vector<OpTableRow> rows;
#define TVARANT_KERNEL(id, Name, name, min_dst, max_dst, min_src, max_src, \
                       doc)                                                \
  rows.push_back({OpTable::kKernels, id,                                   \
                  fold(Mix(Mix(kStart, #name), #min_dst                    \
                           "," #max_dst "," #min_src "," #max_src))});
#include "proto/ops/kernels.inc"
#define TVARANT_POINTWISE_OP(code, Name, name, arity, types, result, expr, \
                             doc)                                          \
  rows.push_back(                                                          \
      {OpTable::kPointwiseOps, code,                                       \
       fold(Mix(Mix(Mix(kStart, #name), #arity "," #types "," #result),    \
                #expr))});
#include "proto/ops/pointwise_ops.inc"
  for (int i = 0; i < kNumDTypes; ++i) {
    rows.push_back({OpTable::kDTypes, static_cast<uint32_t>(i),
                    fold(Mix(kStart, NameOf(static_cast<DType>(i))))});
  }
  return rows;
}

}  // namespace tvarant

#endif  // TVARANT_PROTO_OPS_OP_TABLE_ROWS_H_
