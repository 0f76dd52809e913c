// Tensors of the conformance suite: plain bytes with sizes and strides, read
// and written element by element as long double, which holds every value of
// every dtype exactly. Slow and simple on purpose.

#ifndef TVARANT_TESTS_CONFORMANCE_TENSOR_H_
#define TVARANT_TESTS_CONFORMANCE_TENSOR_H_

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/base/dtype.h"

namespace tvarant::conformance {

using Dims = std::vector<int64_t>;
using Real = long double;

enum class Layout {
  kContiguous,
  kOffset,      // contiguous, one element after an aligned address
  kTransposed,  // column-major
  kGaps,        // every second element, and rows further apart
  kBroadcast,   // the first dimension repeats one slice; inputs only
  kRepeated,    // one element for all; inputs only
};

inline constexpr Layout kDstLayouts[] = {Layout::kContiguous, Layout::kOffset,
                                         Layout::kTransposed, Layout::kGaps};
inline constexpr Layout kSrcLayouts[] = {
    Layout::kContiguous, Layout::kOffset,    Layout::kTransposed,
    Layout::kGaps,       Layout::kBroadcast, Layout::kRepeated};

std::string LayoutName(Layout layout);

// The nearest value of the dtype: floats rounded half to even, integers
// wrapped, bool != 0.
Real RoundTo(DType dtype, Real value);

class Tensor {
 public:
  // Every byte starts as a pattern, so that an element nobody wrote, and a
  // write beside the elements, show.
  Tensor(DType dtype, Dims sizes, Layout layout = Layout::kContiguous);

  DType dtype() const { return dtype_; }
  const Dims& sizes() const { return sizes_; }
  const Dims& strides() const { return strides_; }
  int rank() const { return static_cast<int>(sizes_.size()); }
  int64_t size(int dim) const { return sizes_[dim]; }
  int64_t numel() const { return numel_; }

  // By row-major index. Get gives the real part of a complex element.
  Real Get(int64_t index) const;
  Real GetImag(int64_t index) const;
  // All of them, by row-major index.
  std::vector<Real> Values() const;
  // Rounds to the dtype.
  void Set(int64_t index, Real value, Real imag = 0);
  // Row-major index of an element by its coordinates, and back.
  int64_t IndexOf(const Dims& at) const;
  Dims CoordinatesOf(int64_t index) const;

  // Sets every element; value(i) gets the row-major index.
  Tensor& Fill(const std::function<Real(int64_t)>& value);
  // The same, all random between low and high (whole numbers for integers).
  Tensor& FillRandom(std::mt19937_64& random, Real low, Real high);
  Tensor& FillFrom(std::mt19937_64& random, const std::vector<Real>& pool);

  // The bytes that a runtime holds, and where element 0 is in them.
  std::vector<char>& bytes() { return bytes_; }
  const std::vector<char>& bytes() const { return bytes_; }
  uint64_t offset_bytes() const { return offset_bytes_; }

  // INTERNAL if a byte that belongs to no element differs from `before`.
  absl::Status CheckGaps(const std::vector<char>& before) const;

  std::string Describe() const;

 private:
  int64_t PositionOf(int64_t index) const;  // in bytes_

  DType dtype_;
  Dims sizes_;
  Dims strides_;
  int64_t numel_;
  uint64_t offset_bytes_;
  std::vector<char> bytes_;
};

// How far a result may be from the exact value.
struct Tolerance {
  Real ulps = 4;      // relative, in units of the dtype's last place
  Real absolute = 0;  // in the same units, of 1.0
};

// Of the dtype's last place at 1.0; 0 for integers.
Real EpsilonOf(DType dtype);

// INTERNAL naming the first element of `got` that isn't want(i) within the
// tolerance. NaN equals NaN; integers must be equal.
absl::Status ExpectValues(const std::string& what, const Tensor& got,
                          const std::function<Real(int64_t)>& want,
                          Tolerance tolerance = {});

}  // namespace tvarant::conformance

#endif  // TVARANT_TESTS_CONFORMANCE_TENSOR_H_
