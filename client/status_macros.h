// Early return of a client::Status, as RETURN_IF_ERROR does for absl's.

#ifndef TVARANT_CLIENT_STATUS_MACROS_H_
#define TVARANT_CLIENT_STATUS_MACROS_H_

#include "client/client.h"

// Returns from the function when `expr` is not OK.
#define TVARANT_RETURN_IF_ERROR(expr)                                     \
  do {                                                                    \
    ::tvarant::client::Status tvarant_status = (expr);                    \
    if (__builtin_expect(!tvarant_status.ok(), 0)) return tvarant_status; \
  } while (false)

#endif  // TVARANT_CLIENT_STATUS_MACROS_H_
