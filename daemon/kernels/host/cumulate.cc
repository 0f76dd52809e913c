// cumulate: running sum or product along one dimension.
//
// Floats run in double, integers in int64_t. Along a dimension whose elements
// are the nearest neighbours, lines go one by one; else a block of neighbouring
// lines goes side by side.

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/pointwise/op_table.h"
#include "proto/base/strided.h"

namespace tvarant::host {
namespace {

constexpr int64_t kGrain = 16 << 10;
constexpr int64_t kBlock = 256;

struct Conversions {
  LoadLoop load = nullptr;
  OpLoop widen = nullptr;   // to the running type; null if it is that already
  OpLoop narrow = nullptr;  // back to dst's class
  StoreLoop store = nullptr;
  int64_t src_bytes = 0;
  int64_t dst_bytes = 0;
};

// Registers of 8-byte values.
struct Registers {
  alignas(64) char loaded[kBlock * 8];
  alignas(64) char wide[kBlock * 8];
};

template <typename T>
T* LoadWide(const Conversions& with, const char* src, int64_t stride, int64_t n,
            Registers* registers) {
  with.load(registers->loaded, src, stride, n);
  if (with.widen == nullptr) return reinterpret_cast<T*>(registers->loaded);
  with.widen(registers->wide, registers->loaded, nullptr, nullptr, n, 0);
  return reinterpret_cast<T*>(registers->wide);
}

void StoreNarrow(const Conversions& with, char* dst, int64_t stride,
                 const void* values, int64_t n, Registers* registers) {
  const void* result = values;
  if (with.narrow != nullptr) {
    char* target =
        values == registers->loaded ? registers->wide : registers->loaded;
    with.narrow(target, values, nullptr, nullptr, n, 0);
    result = target;
  }
  with.store(dst, stride, result, n);
}

template <typename T, bool kProduct>
T Combine(T a, T b) {
  return kProduct ? a * b : a + b;
}

// Lines along dim; the loop runs over all other dimensions.
template <typename T, bool kProduct>
void Lines(const Tensor& dst, const Tensor& src, int dim,
           const base::StridedLoop<2>& lines, const Conversions& with,
           ThreadPool& pool) {
  const int64_t length = src.sizes[dim];
  const int64_t dst_step = dst.strides[dim] * with.dst_bytes;
  const int64_t src_step = src.strides[dim] * with.src_bytes;
  const int64_t width = lines.inner_size();
  // Side by side only if that walks memory better.
  const bool across = width > 1 && lines.inner_stride(1) < src.strides[dim];
  const int64_t block = across ? std::min(kBlock, width) : 1;
  const int64_t blocks = (width + block - 1) / block;
  pool.ParallelFor(
      lines.num_rows() * blocks,
      std::max<int64_t>(kGrain / (length * block), 1),
      [&](int64_t begin, int64_t end) {
        Registers registers;
        T running[kBlock];
        for (int64_t at = begin; at < end; ++at) {
          const int64_t first = at % blocks * block;
          const int64_t n = std::min(block, width - first);
          const int64_t line = at / blocks * width + first;
          char* y = dst.data + lines.OffsetOf(0, line) * with.dst_bytes;
          const char* x = src.data + lines.OffsetOf(1, line) * with.src_bytes;
          std::fill(running, running + n, kProduct ? T(1) : T(0));
          if (!across) {
            for (int64_t done = 0; done < length; done += kBlock) {
              const int64_t count = std::min(kBlock, length - done);
              T* values = LoadWide<T>(with, x + done * src_step, src_step,
                                      count, &registers);
              for (int64_t i = 0; i < count; ++i) {
                running[0] = Combine<T, kProduct>(running[0], values[i]);
                values[i] = running[0];
              }
              StoreNarrow(with, y + done * dst_step, dst_step, values, count,
                          &registers);
            }
            continue;
          }
          const int64_t dst_inner = lines.inner_stride(0) * with.dst_bytes;
          const int64_t src_inner = lines.inner_stride(1) * with.src_bytes;
          for (int64_t k = 0; k < length; ++k) {
            const T* values =
                LoadWide<T>(with, x + k * src_step, src_inner, n, &registers);
            for (int64_t i = 0; i < n; ++i) {
              running[i] = Combine<T, kProduct>(running[i], values[i]);
            }
            StoreNarrow(with, y + k * dst_step, dst_inner, running, n,
                        &registers);
          }
        }
      });
}

}  // namespace

absl::Status RunCumulate(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& dst = launch.dst[0];
  const Tensor& src = launch.src[0];
  if (launch.ints.size() < 2 || launch.ints[0] < 0 ||
      launch.ints[0] >= std::max(src.rank, 1)) {
    return absl::InvalidArgumentError("cumulate: dim is out of range");
  }
  const ComputeClass from = ComputeClassOf(src.dtype);
  const ComputeClass to = ComputeClassOf(dst.dtype);
  if (from == ComputeClass::kNone || to == ComputeClass::kNone) {
    return absl::UnimplementedError(
        absl::StrCat("cumulate: dtype ", NameOf(src.dtype), " to ",
                     NameOf(dst.dtype), " is not supported"));
  }
  if (src.numel() == 0) return absl::OkStatus();

  // A sum in float for an integer input is one of floats.
  const bool real = IsFloating(src.dtype) || IsFloating(dst.dtype);
  const ComputeClass running = real ? ComputeClass::kF64 : ComputeClass::kI64;
  const OpTable& table = GetOpTable();
  Conversions with;
  with.load = table.load[static_cast<int>(src.dtype)];
  with.store = table.store[static_cast<int>(dst.dtype)];
  with.src_bytes = static_cast<int64_t>(SizeOf(src.dtype));
  with.dst_bytes = static_cast<int64_t>(SizeOf(dst.dtype));
  if (from != running) {
    with.widen = table.cast[ClassIndex(from)][ClassIndex(running)];
  }
  if (dst.dtype == DType::kBool) {
    with.narrow = table.to_bool[ClassIndex(running)];
  } else if (to != running) {
    with.narrow = table.cast[ClassIndex(running)][ClassIndex(to)];
  }

  // A line is what dim spans; a 0-dim tensor is one of length 1.
  const int dim = static_cast<int>(launch.ints[0]);
  static constexpr int64_t kOne[1] = {1};
  Tensor y = dst, x = src;
  if (src.rank == 0) {
    y.rank = x.rank = 1;
    y.sizes = x.sizes = y.strides = x.strides = kOne;
  }
  int64_t sizes[base::kMaxDims];
  std::copy(x.sizes, x.sizes + x.rank, sizes);
  sizes[dim] = 1;
  base::StridedLoop<2> lines(sizes, x.rank, {y.strides, x.strides});
  lines.SortByFirst();
  lines.Coalesce();
  const bool product = launch.ints[1] != 0;
  if (real) {
    product ? Lines<double, true>(y, x, dim, lines, with, pool)
            : Lines<double, false>(y, x, dim, lines, with, pool);
  } else {
    // Unsigned, so that it wraps.
    product ? Lines<uint64_t, true>(y, x, dim, lines, with, pool)
            : Lines<uint64_t, false>(y, x, dim, lines, with, pool);
  }
  return absl::OkStatus();
}

}  // namespace tvarant::host
