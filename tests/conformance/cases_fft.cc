// fft: against the sum that defines it.

#include <cmath>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "tests/conformance/cases.h"

namespace tvarant::conformance {
namespace {

constexpr Real kPi = 3.14159265358979323846264338327950288L;

enum class Kind { kForward, kInverse, kFromReal, kToReal };
constexpr Kind kKinds[] = {Kind::kForward, Kind::kInverse, Kind::kFromReal,
                           Kind::kToReal};
constexpr const char* kNames[] = {"forward", "inverse", "from_real", "to_real"};

// Lengths of each factor, of several, of a large prime; and where dim lies.
struct Shape {
  Dims sizes;
  int dim;
};
const std::vector<Shape>& FftShapes() {
  static const auto* const kShapes = new std::vector<Shape>{
      {{1}, 0},       {{2}, 0},     {{7}, 0},        {{3, 8}, 1},
      {{3, 9}, 1},    {{10, 4}, 0}, {{2, 12, 3}, 1}, {{11, 30}, 1},
      {{5, 37}, 1},   {{64, 2}, 0}, {{2, 3, 74}, 2}, {{0, 4}, 1},
      {{20, 128}, 1}, {{1, 121}, 1}};
  return *kShapes;
}

struct Number {
  Real re, im;
};

// Number k of line `line` of a tensor.
int64_t PlaceOf(const Tensor& tensor, int dim, int64_t line, int64_t k) {
  int64_t inner = 1;
  for (int i = dim + 1; i < tensor.rank(); ++i) inner *= tensor.size(i);
  return (line / inner * tensor.size(dim) + k) * inner + line % inner;
}

Number NumberOf(const Tensor& x, int dim, int64_t line, int64_t k, int64_t n,
                Kind kind) {
  const bool is_mirrored = kind == Kind::kToReal && k >= x.size(dim);
  const int64_t at = PlaceOf(x, dim, line, is_mirrored ? n - k : k);
  Number number = {x.Get(at), IsComplex(x.dtype()) ? x.GetImag(at) : 0};
  if (is_mirrored) number.im = -number.im;
  // What is its own mirror counts as real.
  if (kind == Kind::kToReal && (k == 0 || 2 * k == n)) number.im = 0;
  return number;
}

absl::Status RunFft(Backend& backend, const std::string& name, DType real,
                    DType complex, Kind kind) {
  std::mt19937_64 random = SeedOf(name);
  std::uniform_real_distribution<double> draw(-1, 1);
  size_t turn = 0;
  for (const Shape& shape : FftShapes()) {
    const int64_t n = shape.sizes[static_cast<size_t>(shape.dim)];
    Dims half = shape.sizes;
    half[static_cast<size_t>(shape.dim)] = n / 2 + 1;
    Tensor x(kind == Kind::kFromReal ? real : complex,
             kind == Kind::kToReal ? half : shape.sizes,
             kSrcLayouts[++turn % 6]);
    Tensor y(kind == Kind::kToReal ? real : complex,
             kind == Kind::kFromReal ? half : shape.sizes,
             kDstLayouts[turn % 4]);
    for (int64_t i = 0; i < x.numel(); ++i) {
      x.Set(i, draw(random), draw(random));
    }
    const bool forward = kind == Kind::kForward || kind == Kind::kFromReal;
    Launch launch(Kernel::kFft);
    launch.ints = {shape.dim, forward};
    launch.floats = {0.25};
    launch.dst = {&y};
    launch.src = {&x};
    RETURN_IF_ERROR(backend.Run(launch));
    const int64_t lines = y.numel() == 0 ? 0 : y.numel() / y.size(shape.dim);
    for (int64_t line = 0; line < lines; ++line) {
      for (int64_t k = 0; k < y.size(shape.dim); ++k) {
        Number sum = {0, 0};
        for (int64_t j = 0; j < n; ++j) {
          const Number v = NumberOf(x, shape.dim, line, j, n, kind);
          const Real angle = (forward ? -2 : 2) * kPi * (j * k % n) / n;
          sum.re += v.re * std::cos(angle) - v.im * std::sin(angle);
          sum.im += v.re * std::sin(angle) + v.im * std::cos(angle);
        }
        const int64_t at = PlaceOf(y, shape.dim, line, k);
        const Real re = y.Get(at) - sum.re / 4;
        const Real im = IsComplex(y.dtype()) ? y.GetImag(at) - sum.im / 4 : 0;
        const Real allowed =
            EpsilonOf(real) * 8 * std::sqrt(static_cast<Real>(n) + 1);
        if (!(std::hypot(re, im) <= allowed)) {
          return absl::InternalError(absl::StrCat(
              name, ": ", y.Describe(), " element ", at, " is off by ",
              static_cast<double>(std::hypot(re, im)), ", allowed ",
              static_cast<double>(allowed)));
        }
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

void AddFftCases(CaseList& cases) {
  for (const bool is_double : {false, true}) {
    const DType real = is_double ? DType::kFloat64 : DType::kFloat32;
    const DType complex = is_double ? DType::kComplex128 : DType::kComplex64;
    for (const Kind kind : kKinds) {
      const std::string name = absl::StrCat(
          "fft/", kNames[static_cast<int>(kind)], "/", NameOf(real));
      cases.push_back({name, Kernel::kFft, {}, [=](Backend& backend) {
                         return RunFft(backend, name, real, complex, kind);
                       }});
    }
  }
}

}  // namespace tvarant::conformance
