// RETURN_IF_ERROR and ASSIGN_OR_RETURN for absl::Status.
//
// Example:
//   RETURN_IF_ERROR(CheckLaunch(params, program));
//   ASSIGN_OR_RETURN(std::unique_ptr<Segment> segment, MakeSegment(size));

#ifndef TVARANT_PROTO_BASE_STATUS_MACROS_H_
#define TVARANT_PROTO_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns from the enclosing function when `expr` (a Status) is not OK.
#define RETURN_IF_ERROR(expr)                        \
  do {                                               \
    absl::Status tvarant_status_ = (expr);           \
    if (ABSL_PREDICT_FALSE(!tvarant_status_.ok())) { \
      return tvarant_status_;                        \
    }                                                \
  } while (false)

// Evaluates `expr` (a StatusOr), returns its status when that is not OK, else
// moves the value into `lhs`, which may declare a variable. Not for a `lhs`
// with a comma outside of parentheses.
#define ASSIGN_OR_RETURN(lhs, expr) \
  TVARANT_ASSIGN_OR_RETURN_(        \
      TVARANT_STATUS_CONCAT_(tvarant_statusor_, __LINE__), lhs, expr)

#define TVARANT_ASSIGN_OR_RETURN_(statusor, lhs, expr) \
  auto statusor = (expr);                              \
  if (ABSL_PREDICT_FALSE(!statusor.ok())) {            \
    return std::move(statusor).status();               \
  }                                                    \
  lhs = *std::move(statusor)

#define TVARANT_STATUS_CONCAT_(a, b) TVARANT_STATUS_CONCAT_INNER_(a, b)
#define TVARANT_STATUS_CONCAT_INNER_(a, b) a##b

#endif  // TVARANT_PROTO_BASE_STATUS_MACROS_H_
