// YieldScope: whom the loops of this thread ask whether others should be let
// in.
//
// A loop of ThreadPool asks between two parts, on the thread that called it,
// and gives the workers back before it waits. A loop inside of a part does not
// ask.
//
// Example:
//   const YieldScope scope(&yield_point);
//   pool.ParallelFor(n, grain, body);

#ifndef TVARANT_DAEMON_KERNELS_HOST_YIELD_SCOPE_H_
#define TVARANT_DAEMON_KERNELS_HOST_YIELD_SCOPE_H_

#include "daemon/base/yield_point.h"

namespace tvarant::host {

// Whether others have been at the device lately, as far as this thread knows.
bool HasNeighbours();

class YieldScope {
 public:
  // *yield_point must outlive the scope. Null: nobody is asked.
  explicit YieldScope(YieldPoint* yield_point);
  ~YieldScope();
  YieldScope(const YieldScope&) = delete;
  YieldScope& operator=(const YieldScope&) = delete;

  // Who was asked before; may be null.
  YieldPoint* before() const { return before_; }

 private:
  YieldPoint* const before_;
};

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_YIELD_SCOPE_H_
