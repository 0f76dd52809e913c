// Numbers and sentences of the kernel `within`, made from data_checks.inc.

#ifndef TVARANT_PROTO_OPS_DATA_CHECKS_H_
#define TVARANT_PROTO_OPS_DATA_CHECKS_H_

#include <cstdint>

namespace tvarant {

enum class DataCheck : int64_t {
#define TVARANT_DATA_CHECK(id, Name, op, text) k##Name = id,
#include "proto/ops/data_checks.inc"
};

constexpr bool IsDataCheck(int64_t id) {
  switch (id) {
#define TVARANT_DATA_CHECK(id, Name, op, text) case id:
#include "proto/ops/data_checks.inc"
    return true;
    default:
      return false;
  }
}

// "<op>: <text>"
constexpr const char* SentenceOf(int64_t id) {
  switch (id) {
#define TVARANT_DATA_CHECK(id, Name, op, text) \
  case id:                                     \
    return op ": " text;
#include "proto/ops/data_checks.inc"
    default:
      return "an element is outside of its limits";
  }
}

}  // namespace tvarant

#endif  // TVARANT_PROTO_OPS_DATA_CHECKS_H_
