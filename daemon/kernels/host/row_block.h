// Blocks of rows as contiguous arrays of the computing type, for kernels that
// work along one dimension (softmax, norms). Include only in SIMD sources.

#ifndef TVARANT_DAEMON_KERNELS_HOST_ROW_BLOCK_H_
#define TVARANT_DAEMON_KERNELS_HOST_ROW_BLOCK_H_

#include "daemon/kernels/host/row_view.h"
#include "daemon/kernels/host/vec.h"

namespace tvarant::host::TVARANT_ISA {

// Lanes beyond n read as `rest`; memory beyond p + n is not touched.
template <typename T, typename S>
TVARANT_INLINE Vec<T> LoadPart(const S* p, int64_t n, S rest) {
  S lanes[Vec<T>::kLanes];
  for (int i = 0; i < Vec<T>::kLanes; ++i) lanes[i] = rest;
  for (int64_t i = 0; i < n; ++i) lanes[i] = p[i];
  return Vec<T>::Load(lanes);
}

template <typename T>
TVARANT_INLINE void StorePart(Vec<T> x, int64_t n, T* p) {
  T lanes[Vec<T>::kLanes];
  x.Store(lanes);
  for (int64_t i = 0; i < n; ++i) p[i] = lanes[i];
}

template <typename T>
TVARANT_INLINE bool IsDirect(const RowView& view) {
  return view.step == 1 &&
         view.dtype ==
             (__is_same(T, float) ? DType::kFloat32 : DType::kFloat64);
}

// dst[row * n + i] = element i of each row.
template <typename T, typename S>
void GatherAs(const RowView& view, int64_t rows, int64_t n, T* dst) {
  const S* src = reinterpret_cast<const S*>(view.data);
  if (view.step == 1) {
    for (int64_t row = 0; row < rows; ++row, dst += n) {
      const S* line = src + row * view.row_stride;
      int64_t i = 0;
      for (; i + Vec<T>::kLanes <= n; i += Vec<T>::kLanes) {
        Vec<T>::Load(line + i).Store(dst + i);
      }
      for (; i < n; ++i) dst[i] = ToFloat(line[i]);
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t row = 0; row < rows; ++row) {
      dst[row * n + i] = ToFloat(src[row * view.row_stride + i * view.step]);
    }
  }
}

template <typename T, typename S>
void ScatterAs(const T* src, int64_t rows, int64_t n, const RowView& view) {
  S* dst = reinterpret_cast<S*>(view.data);
  if (view.step == 1) {
    for (int64_t row = 0; row < rows; ++row, src += n) {
      S* line = dst + row * view.row_stride;
      int64_t i = 0;
      for (; i + Vec<T>::kLanes <= n; i += Vec<T>::kLanes) {
        Vec<T>::Load(src + i).Store(line + i);
      }
      for (; i < n; ++i) line[i] = FromFloat<S>(src[i]);
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t row = 0; row < rows; ++row) {
      dst[row * view.row_stride + i * view.step] =
          FromFloat<S>(src[row * n + i]);
    }
  }
}

template <typename T>
void Gather(const RowView& view, int64_t rows, int64_t n, T* dst) {
  if constexpr (__is_same(T, double)) {
    GatherAs<double, double>(view, rows, n, dst);
  } else {
    if (view.dtype == DType::kFloat16) GatherAs<T, Half>(view, rows, n, dst);
    if (view.dtype == DType::kBFloat16) {
      GatherAs<T, BFloat16>(view, rows, n, dst);
    }
    if (view.dtype == DType::kFloat32) GatherAs<T, float>(view, rows, n, dst);
  }
}

template <typename T>
void Scatter(const T* src, int64_t rows, int64_t n, const RowView& view) {
  if constexpr (__is_same(T, double)) {
    ScatterAs<double, double>(src, rows, n, view);
  } else {
    if (view.dtype == DType::kFloat16) ScatterAs<T, Half>(src, rows, n, view);
    if (view.dtype == DType::kBFloat16) {
      ScatterAs<T, BFloat16>(src, rows, n, view);
    }
    if (view.dtype == DType::kFloat32) ScatterAs<T, float>(src, rows, n, view);
  }
}

// Rows to read: in place, or gathered into `buffer` (rows * n).
template <typename T>
struct InRows {
  InRows(const RowView& view, int64_t rows, int64_t n, T* buffer)
      : data(buffer), stride(n) {
    if (IsDirect<T>(view)) {
      data = reinterpret_cast<const T*>(view.data);
      stride = view.row_stride;
    } else {
      Gather(view, rows, n, buffer);
    }
  }
  const T* row(int64_t i) const { return data + i * stride; }

  const T* data;
  int64_t stride;
};

// Rows to write: in place, or in `buffer` until Finish.
template <typename T>
struct OutRows {
  OutRows(const RowView& view, int64_t n, T* buffer)
      : direct(IsDirect<T>(view)), data(buffer), stride(n) {
    if (direct) {
      data = reinterpret_cast<T*>(view.data);
      stride = view.row_stride;
    }
  }
  T* row(int64_t i) const { return data + i * stride; }
  void Finish(const RowView& view, int64_t rows, int64_t n) const {
    if (!direct) Scatter(data, rows, n, view);
  }

  bool direct;
  T* data;
  int64_t stride;
};

}  // namespace tvarant::host::TVARANT_ISA

#endif  // TVARANT_DAEMON_KERNELS_HOST_ROW_BLOCK_H_
