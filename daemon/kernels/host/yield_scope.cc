#include "daemon/kernels/host/yield_scope.h"

#include <utility>

namespace tvarant::host {
namespace {

thread_local YieldPoint* t_yield_point = nullptr;

}  // namespace

bool HasNeighbours() {
  return t_yield_point != nullptr && t_yield_point->HasNeighbours();
}

YieldScope::YieldScope(YieldPoint* yield_point)
    : before_(std::exchange(t_yield_point, yield_point)) {}

YieldScope::~YieldScope() { t_yield_point = before_; }

}  // namespace tvarant::host
