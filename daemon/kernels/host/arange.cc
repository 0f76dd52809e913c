// arange: start + i * step.

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/pointwise/op_table.h"

namespace tvarant::host {
namespace {

constexpr int64_t kGrain = 32 << 10;
constexpr int64_t kBlock = 512;

// Writes start + i * step, computed in T, through registers of T.
template <typename T>
void Arange(const Tensor& dst, T start, T step, ComputeClass from,
            ThreadPool& pool) {
  const OpTable& table = GetOpTable();
  const ComputeClass to = ComputeClassOf(dst.dtype);
  const OpLoop cast =
      dst.dtype == DType::kBool ? table.to_bool[ClassIndex(from)]
      : from == to              ? nullptr
                                : table.cast[ClassIndex(from)][ClassIndex(to)];
  const StoreLoop store = table.store[static_cast<int>(dst.dtype)];
  const int64_t stride =
      dst.strides[0] * static_cast<int64_t>(SizeOf(dst.dtype));
  pool.ParallelFor(dst.sizes[0], kGrain, [&](int64_t begin, int64_t end) {
    T values[kBlock];
    T converted[kBlock];
    for (int64_t at = begin; at < end; at += kBlock) {
      const int64_t n = std::min(kBlock, end - at);
      for (int64_t i = 0; i < n; ++i) {
        values[i] = start + static_cast<T>(at + i) * step;
      }
      const void* result = values;
      if (cast != nullptr) {
        cast(converted, values, nullptr, nullptr, n, 0);
        result = converted;
      }
      store(dst.data + at * stride, stride, result, n);
    }
  });
}

}  // namespace

absl::Status RunArange(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& dst = launch.dst[0];
  if (dst.rank != 1) {
    return absl::InvalidArgumentError("arange: the output is not 1-D");
  }
  if (ComputeClassOf(dst.dtype) == ComputeClass::kNone) {
    return absl::UnimplementedError(
        absl::StrCat("arange: dtype ", NameOf(dst.dtype), " is not supported"));
  }
  if (IsFloating(dst.dtype)) {
    if (launch.floats.size() < 2) {
      return absl::InvalidArgumentError("arange: wants two floats");
    }
    Arange<double>(dst, launch.floats[0], launch.floats[1], ComputeClass::kF64,
                   pool);
    return absl::OkStatus();
  }
  if (launch.ints.size() < 2) {
    return absl::InvalidArgumentError("arange: wants two ints");
  }
  // Unsigned, so that it wraps.
  Arange<uint64_t>(dst, static_cast<uint64_t>(launch.ints[0]),
                   static_cast<uint64_t>(launch.ints[1]), ComputeClass::kI64,
                   pool);
  return absl::OkStatus();
}

}  // namespace tvarant::host
