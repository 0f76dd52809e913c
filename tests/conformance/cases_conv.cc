// convolution, convolution_transpose, convolution_weight.

#include <cmath>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "tests/conformance/cases.h"

namespace tvarant::conformance {
namespace {

struct Shape {
  int64_t batch, channels, rows, groups;
  int64_t size[3], window[3], stride[3], padding[3], dilation[3];

  int64_t Out(int i) const {
    return (size[i] + 2 * padding[i] - dilation[i] * (window[i] - 1) - 1) /
               stride[i] +
           1;
  }
  Dims x() const { return {batch, channels, size[0], size[1], size[2]}; }
  Dims y() const { return {batch, rows, Out(0), Out(1), Out(2)}; }
  Dims weight() const {
    return {rows, channels / groups, window[0], window[1], window[2]};
  }
  std::vector<int64_t> ints() const {
    std::vector<int64_t> all = {groups};
    for (const int64_t* three : {stride, padding, dilation}) {
      all.insert(all.end(), three, three + 3);
    }
    return all;
  }
};

constexpr Shape kShapes[] = {
    {1, 1, 1, 1, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}},
    {2, 3, 5, 1, {1, 6, 7}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}},
    {3, 4, 6, 2, {1, 9, 8}, {1, 3, 2}, {1, 2, 3}, {0, 1, 0}, {1, 1, 2}},
    {2, 5, 17, 1, {1, 1, 40}, {1, 1, 5}, {1, 1, 2}, {0, 0, 2}, {1, 1, 3}},
    {1, 33, 15, 1, {1, 7, 7}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}},
    {2, 6, 4, 1, {1, 9, 9}, {1, 1, 1}, {1, 2, 2}, {0, 0, 0}, {1, 1, 1}},
    {2, 3, 4, 1, {4, 5, 6}, {2, 3, 3}, {1, 2, 1}, {1, 1, 2}, {1, 1, 1}},
    {2, 7, 7, 7, {1, 11, 19}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}},
    {1, 5, 5, 5, {1, 20, 37}, {1, 5, 3}, {1, 2, 2}, {0, 2, 0}, {1, 1, 2}},
    {2, 4, 8, 4, {2, 5, 5}, {2, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 2, 1}},
    {1, 40, 30, 1, {1, 12, 33}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}},
    // Windows that begin in the padding and end beyond the input.
    {1, 2, 3, 1, {1, 2, 3}, {1, 4, 5}, {1, 1, 1}, {0, 3, 4}, {1, 1, 1}},
    {1, 2, 2, 1, {1, 3, 3}, {1, 2, 2}, {1, 5, 5}, {0, 0, 0}, {1, 1, 1}},
    // Nothing to add up, and nothing to write.
    {2, 0, 3, 1, {1, 4, 4}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}},
    {0, 2, 3, 1, {1, 4, 4}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}},
};

// Large enough to be cut into parts; x lies plane by plane, and (one image)
// channel by channel.
constexpr Shape kLargeShapes[] = {
    {1, 16, 6, 1, {1, 30, 41}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}},
    {1, 16, 8, 2, {1, 40, 40}, {1, 3, 3}, {1, 2, 2}, {0, 2, 2}, {1, 2, 2}},
    {1, 24, 16, 1, {1, 9, 11}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}},
    {7, 12, 4, 1, {1, 20, 20}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}},
    {3, 16, 8, 4, {2, 8, 9}, {2, 3, 3}, {1, 2, 1}, {1, 1, 1}, {1, 1, 1}},
};
constexpr Layout kPlain[] = {Layout::kContiguous, Layout::kContiguous,
                             Layout::kContiguous, Layout::kContiguous};
constexpr Layout kChannelsFirst[] = {Layout::kTransposed, Layout::kContiguous,
                                     Layout::kContiguous, Layout::kContiguous};

// Calls visit(x index, y index, weight index) for every product.
template <typename Visit>
void ForProducts(const Shape& s, const Tensor& x, const Tensor& y,
                 const Tensor& weight, const Visit& visit) {
  const int64_t rows = s.rows / s.groups, channels = s.channels / s.groups;
  for (int64_t i = 0; i < y.numel(); ++i) {
    const Dims out = y.CoordinatesOf(i);
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t d = 0; d < s.window[0]; ++d) {
        for (int64_t h = 0; h < s.window[1]; ++h) {
          for (int64_t w = 0; w < s.window[2]; ++w) {
            Dims in = {out[0], out[1] / rows * channels + c, 0, 0, 0};
            const int64_t tap[3] = {d, h, w};
            bool inside = true;
            for (int k = 0; k < 3; ++k) {
              in[2 + k] = out[2 + k] * s.stride[k] - s.padding[k] +
                          tap[k] * s.dilation[k];
              inside &= in[2 + k] >= 0 && in[2 + k] < s.size[k];
            }
            if (inside) {
              visit(x.IndexOf(in), i, weight.IndexOf({out[1], c, d, h, w}));
            }
          }
        }
      }
    }
  }
}

enum class What { kForward, kTranspose, kWeight };

// layouts: of x, y, weight, bias.
absl::Status RunShape(Backend& backend, const std::string& name, What what,
                      DType dtype, bool biased, const Shape& shape,
                      const Layout* layouts, std::mt19937_64& random) {
  Tensor x(dtype, shape.x(), layouts[0]);
  Tensor y(dtype, shape.y(), layouts[1]);
  Tensor weight(dtype, shape.weight(), layouts[2]);
  const int64_t width = what == What::kForward ? shape.rows : shape.channels;
  Tensor bias(dtype, {width}, layouts[3]);
  bias.FillRandom(random, -1, 1);
  for (Tensor* t : {&x, &y, &weight}) t->FillRandom(random, -1, 1);
  Launch launch(what == What::kForward     ? Kernel::kConvolution
                : what == What::kTranspose ? Kernel::kConvolutionTranspose
                                           : Kernel::kConvolutionWeight);
  launch.ints = shape.ints();
  Tensor& result = what == What::kForward     ? y
                   : what == What::kTranspose ? x
                                              : weight;
  std::vector<Real> want(result.numel());
  ForProducts(shape, x, y, weight, [&](int64_t i, int64_t j, int64_t k) {
    if (what == What::kForward) want[j] += x.Get(i) * weight.Get(k);
    if (what == What::kTranspose) want[i] += y.Get(j) * weight.Get(k);
    if (what == What::kWeight) want[k] += y.Get(j) * x.Get(i);
  });
  launch.dst = {&result};
  if (what == What::kForward) launch.src = {&x, &weight};
  if (what == What::kTranspose) launch.src = {&y, &weight};
  if (what == What::kWeight) launch.src = {&y, &x};
  if (what != What::kWeight && biased) {
    launch.src.push_back(&bias);
    for (int64_t i = 0; i < result.numel(); ++i) {
      want[i] += bias.Get(result.CoordinatesOf(i)[1]);
    }
  }
  RETURN_IF_ERROR(backend.Run(launch));
  return ExpectValues(
      absl::StrCat(name, " ", result.Describe()), result,
      [&](int64_t i) { return want[i]; },
      // Sums of up to a few thousand products of numbers below 1.
      {.ulps = 32, .absolute = SizeOf(dtype) == 2 ? Real{64} : Real{512}});
}

absl::Status RunConvolution(Backend& backend, const std::string& name,
                            What what, DType dtype, bool biased) {
  std::mt19937_64 random = SeedOf(name);
  size_t turn = 0;
  for (const Shape& shape : kShapes) {
    ++turn;
    const auto layout = [&](size_t operand, bool dst) {
      return dst ? kDstLayouts[(turn + operand) % 4]
                 : kSrcLayouts[(turn + operand) % 6];
    };
    const Layout layouts[] = {
        layout(0, what == What::kTranspose), layout(1, what == What::kForward),
        layout(2, what == What::kWeight), layout(3, false)};
    RETURN_IF_ERROR(
        RunShape(backend, name, what, dtype, biased, shape, layouts, random));
  }
  return absl::OkStatus();
}

absl::Status RunLarge(Backend& backend, const std::string& name, What what,
                      DType dtype) {
  std::mt19937_64 random = SeedOf(name);
  for (const Shape& shape : kLargeShapes) {
    for (const Layout* layouts : {kPlain, kChannelsFirst}) {
      RETURN_IF_ERROR(RunShape(backend, name, what, dtype, /*biased=*/true,
                               shape, layouts, random));
    }
  }
  return absl::OkStatus();
}

}  // namespace

void AddConvCases(CaseList& cases) {
  for (const DType dtype : kFloatDTypes) {
    for (const bool biased : {false, true}) {
      const auto add = [&](Kernel kernel, What what) {
        const std::string name = absl::StrCat(
            NameOf(kernel), "/", NameOf(dtype), biased ? "/bias" : "");
        cases.push_back({name, kernel, {}, [=](Backend& backend) {
                           return RunConvolution(backend, name, what, dtype,
                                                 biased);
                         }});
      };
      add(Kernel::kConvolution, What::kForward);
      add(Kernel::kConvolutionTranspose, What::kTranspose);
      if (!biased) add(Kernel::kConvolutionWeight, What::kWeight);
    }
    if (dtype == DType::kFloat16 || dtype == DType::kFloat64) continue;
    const auto add_large = [&](Kernel kernel, What what) {
      const std::string name =
          absl::StrCat(NameOf(kernel), "/large/", NameOf(dtype));
      cases.push_back({name, kernel, {}, [=](Backend& backend) {
                         return RunLarge(backend, name, what, dtype);
                       }});
    };
    add_large(Kernel::kConvolution, What::kForward);
    add_large(Kernel::kConvolutionTranspose, What::kTranspose);
    add_large(Kernel::kConvolutionWeight, What::kWeight);
  }
}

}  // namespace tvarant::conformance
