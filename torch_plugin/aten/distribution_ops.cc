// Distributions made of uniform, normal and exponential numbers; samples of
// categories.

#include <ATen/native/DistributionTemplates.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/topk.h>
#include <torch/library.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

#include "torch_plugin/aten/op_support.h"

namespace tvarant::torch_plugin {
namespace {

namespace templates = at::native::templates;
using OptionalGenerator = std::optional<at::Generator>;

// Where numbers of self's type are made: never in a half type.
Tensor Workspace(const Tensor& self) {
  const bool wide = self.scalar_type() == ScalarType::Double ||
                    self.scalar_type() == ScalarType::Long;
  return EmptyLikeOf(self, self.sizes(),
                     wide ? ScalarType::Double : ScalarType::Float);
}

void CheckFloating(const char* op, const Tensor& self) {
  if (!self.is_floating_point()) ThrowNotImplementedFor(op, self.scalar_type());
}

template <class>
struct CauchyKernel {
  void operator()(at::TensorIteratorBase& iter, double median, double sigma,
                  const OptionalGenerator& generator) {
    const Tensor& self = iter.tensor(0);
    CheckFloating("cauchy_", self);
    Tensor angle = Workspace(self).uniform_(0, 1, generator);
    angle.sub_(0.5).mul_(std::numbers::pi).tan_();
    self.copy_(angle.mul_(sigma).add_(median));
  }
};

template <class>
struct LogNormalKernel {
  void operator()(at::TensorIteratorBase& iter, double mean, double std,
                  const OptionalGenerator& generator) {
    const Tensor& self = iter.tensor(0);
    CheckFloating("log_normal_", self);
    self.copy_(Workspace(self).normal_(mean, std, generator).exp_());
  }
};

// The number of trials until a success: an exponential number rounded up.
template <class>
struct GeometricKernel {
  void operator()(at::TensorIteratorBase& iter, double p,
                  const OptionalGenerator& generator) {
    const Tensor& self = iter.tensor(0);
    CheckHasKernels("geometric_", self.scalar_type());
    self.copy_(
        Workspace(self).exponential_(-std::log1p(-p), generator).ceil_());
  }
};

Tensor& Cauchy(Tensor& self, double median, double sigma,
               OptionalGenerator generator) {
  return templates::cauchy_impl_<CauchyKernel, at::Generator>(self, median,
                                                              sigma, generator);
}

Tensor& LogNormal(Tensor& self, double mean, double std,
                  OptionalGenerator generator) {
  return templates::log_normal_impl_<LogNormalKernel, at::Generator>(
      self, mean, std, generator);
}

Tensor& Geometric(Tensor& self, double p, OptionalGenerator generator) {
  return templates::geometric_impl_<GeometricKernel, at::Generator>(self, p,
                                                                    generator);
}

// --- multinomial -------------------------------------------------------------

// Waits for the device once.
void CheckWeights(const Tensor& weights) {
  const Tensor bad = weights.max()
                         .lt(std::numeric_limits<double>::infinity())
                         .logical_and(weights.min().ge(0))
                         .logical_not();
  const Tensor empty = weights.sum(-1).eq(0).any();
  const auto found =
      bad.to(ScalarType::Int).mul(2).add(empty.to(ScalarType::Int)).item<int>();
  TORCH_CHECK((found & 2) == 0,
              "probability tensor contains either `inf`, `nan` or element < 0");
  TORCH_CHECK((found & 1) == 0,
              "invalid multinomial distribution (sum of probabilities <= 0)");
}

Tensor& MultinomialOut(const Tensor& self, int64_t num_samples,
                       bool replacement, OptionalGenerator generator,
                       Tensor& out) {
  TORCH_CHECK(out.device() == self.device(),
              "multinomial arguments must have the same device");
  TORCH_CHECK(self.dim() > 0 && self.dim() <= 2,
              "prob_dist must be 1 or 2 dim");
  TORCH_CHECK(at::isFloatingType(self.scalar_type()),
              "multinomial only supports floating-point dtypes for input, "
              "got: ",
              self.scalar_type());
  TORCH_CHECK(out.scalar_type() == ScalarType::Long,
              "multinomial expects Long tensor out, got: ", out.scalar_type());
  TORCH_CHECK(num_samples > 0, "cannot sample n_sample <= 0 samples");
  const int64_t categories = self.size(-1);
  TORCH_CHECK(replacement || num_samples <= categories,
              "cannot sample n_sample > prob_dist.size(-1) samples without "
              "replacement");
  constexpr int64_t kMaxCategories = int64_t{1} << 24;
  TORCH_CHECK(categories <= kMaxCategories,
              "number of categories cannot exceed 2^24");
  at::DimVector sizes(self.sizes());
  sizes.back() = num_samples;
  at::native::resize_output(out, sizes);
  if (out.numel() == 0) return out;
  CheckWeights(self);
  if (!replacement || num_samples == 1) {
    // The category whose exponential waiting time, at its rate, is shortest.
    const ScalarType type = self.scalar_type() == ScalarType::Double
                                ? ScalarType::Double
                                : ScalarType::Float;
    const Tensor times =
        EmptyLikeOf(self, self.sizes(), type).exponential_(1, generator);
    const Tensor rates = self.to(type).div(times);
    if (num_samples == 1) {
      out.copy_(rates.argmax(-1, /*keepdim=*/true));
    } else {
      out.copy_(std::get<1>(at::topk(rates, num_samples)));
    }
    return out;
  }
  const Tensor sums = self.cumsum(-1, ScalarType::Double);
  const Tensor points =
      EmptyLikeOf(self, sizes, ScalarType::Double).uniform_(0, 1, generator);
  points.mul_(sums.narrow(-1, categories - 1, 1));
  const Tensor found = at::searchsorted(sums, points, /*out_int32=*/false,
                                        /*right=*/true);
  out.copy_(found.clamp_max_(categories - 1));
  return out;
}

Tensor Multinomial(const Tensor& self, int64_t num_samples, bool replacement,
                   OptionalGenerator generator) {
  Tensor out = EmptyLikeOf(self, {0}, ScalarType::Long);
  return MultinomialOut(self, num_samples, replacement, std::move(generator),
                        out);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("cauchy_", &Cauchy);
  m.impl("log_normal_", &LogNormal);
  m.impl("geometric_", &Geometric);
  m.impl("multinomial", &Multinomial);
  m.impl("multinomial.out", &MultinomialOut);
}

}  // namespace
}  // namespace tvarant::torch_plugin
