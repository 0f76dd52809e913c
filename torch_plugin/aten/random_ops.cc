// Random numbers: Philox, from the device's generator. Limits and their
// errors are PyTorch's own (DistributionTemplates.h).

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/DistributionTemplates.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randperm.h>
#include <torch/library.h>

#include <cstdint>
#include <limits>
#include <optional>

#include "torch_plugin/aten/data_check.h"
#include "torch_plugin/aten/launch.h"
#include "torch_plugin/aten/op_support.h"
#include "torch_plugin/runtime/generator.h"

namespace tvarant::torch_plugin {
namespace {

namespace templates = at::native::templates;
using OptionalGenerator = std::optional<at::Generator>;

struct Numbers {
  Distribution distribution;
  int64_t low = 0, high = 0;  // integers
  double a = 0, b = 0;        // the distribution's parameters
};

// Fills a strided target.
void Fill(const Tensor& target, const Numbers& numbers,
          const OptionalGenerator& generator) {
  // A generator of the device brings any tensor here.
  TORCH_CHECK(OnDevice(target), "Expected a '", target.device().type(),
              "' device type for generator but found 'tvarant'");
  // Elements of 64 bits take Philox's words in pairs.
  const auto n = static_cast<uint64_t>(target.numel());
  const bool pairs = target.element_size() == 8;
  const PhiloxPoint point =
      PhiloxNext(generator, target.device(), pairs ? (n + 1) / 2 : (n + 3) / 4);
  LaunchBuilder launch(Kernel::kRandom, target.device());
  launch.Dst(target)
      .Int(static_cast<int64_t>(numbers.distribution))
      .Int(static_cast<int64_t>(point.seed))
      .Int(static_cast<int64_t>(point.offset))
      .Int(numbers.low)
      .Int(numbers.high)
      .Float(numbers.a)
      .Float(numbers.b);
  launch.Run();
}

// The kernels that PyTorch's templates call once the limits are checked. The
// template argument is the generator's class, which is not needed here.
template <class>
struct NormalKernel {
  void operator()(const Tensor& self, double mean, double std,
                  const OptionalGenerator& generator) {
    if (!self.is_floating_point()) {
      ThrowNotImplementedFor("normal_", self.scalar_type());
    }
    Fill(self, {.distribution = Distribution::kNormal, .a = mean, .b = std},
         generator);
  }
};

template <class>
struct UniformKernel {
  void operator()(at::TensorIteratorBase& iter, double from, double to,
                  const OptionalGenerator& generator) {
    Fill(iter.tensor(0),
         {.distribution = Distribution::kUniform, .a = from, .b = to},
         generator);
  }
};

template <class>
struct ExponentialKernel {
  void operator()(at::TensorIteratorBase& iter, double rate,
                  const OptionalGenerator& generator) {
    const Tensor& self = iter.tensor(0);
    TORCH_CHECK(self.is_floating_point(),
                "Exponential distribution is a continuous probability "
                "distribution. dtype must be a floating point but you "
                "specified ",
                self.dtype());
    Fill(self, {.distribution = Distribution::kExponential, .a = rate},
         generator);
  }
};

template <class>
struct IntegerKernel {
  // [from, from + range)
  void operator()(at::TensorIteratorBase& iter, uint64_t range, int64_t from,
                  const OptionalGenerator& generator) {
    // The end stands in an int64, so that of the longest ranges the last of
    // 2^63 numbers or more is left out.
    constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
    const auto end = static_cast<int64_t>(static_cast<uint64_t>(from) + range);
    const int64_t to = end > from ? end : kLargest;
    Fill(iter.tensor(0),
         {.distribution = Distribution::kInteger, .low = from, .high = to},
         generator);
  }
  // Any integer.
  void operator()(at::TensorIteratorBase& iter,
                  const OptionalGenerator& generator) {
    Fill(iter.tensor(0), {.distribution = Distribution::kFullInteger},
         generator);
  }
};

template <class>
struct BernoulliKernel {
  void operator()(const Tensor& self, double p,
                  const OptionalGenerator& generator) {
    CheckHasKernels("bernoulli_", self.scalar_type());
    Fill(self, {.distribution = Distribution::kBernoulli, .a = p}, generator);
  }
};

template <class>
struct BernoulliTensorKernel {
  void operator()(const Tensor& self, const Tensor& probability,
                  const OptionalGenerator& generator) {
    TORCH_CHECK(probability.is_floating_point(),
                "expected probabilities tensor to have floating type, got ",
                probability.scalar_type());
    const Tensor p = probability.to(self.device());
    CheckData(DataCheck::kBernoulli, p, 0, 1);
    const ScalarType type = p.scalar_type() == ScalarType::Double
                                ? ScalarType::Double
                                : ScalarType::Float;
    const Tensor uniform = EmptyLikeOf(self, self.sizes(), type);
    Fill(uniform, {.distribution = Distribution::kUniform, .a = 0, .b = 1},
         generator);
    self.copy_(uniform.lt(p));
  }
};

// --- Ops -----------------------------------------------------------------

Tensor& Normal(Tensor& self, double mean, double std,
               OptionalGenerator generator) {
  return templates::normal_impl_<NormalKernel, at::Generator>(self, mean, std,
                                                              generator);
}
Tensor NormalTensorFloat(const Tensor& mean, double std,
                         OptionalGenerator generator) {
  return templates::normal_impl<NormalKernel, at::Generator>(mean, std,
                                                             generator);
}
Tensor NormalFloatTensor(double mean, const Tensor& std,
                         OptionalGenerator generator) {
  return templates::normal_impl<NormalKernel, at::Generator>(mean, std,
                                                             generator);
}
Tensor NormalTensorTensor(const Tensor& mean, const Tensor& std,
                          OptionalGenerator generator) {
  return templates::normal_impl<NormalKernel, at::Generator>(mean, std,
                                                             generator);
}
Tensor& NormalTensorFloatOut(const Tensor& mean, double std,
                             OptionalGenerator generator, Tensor& out) {
  return templates::normal_out_impl<NormalKernel, at::Generator>(out, mean, std,
                                                                 generator);
}
Tensor& NormalFloatTensorOut(double mean, const Tensor& std,
                             OptionalGenerator generator, Tensor& out) {
  return templates::normal_out_impl<NormalKernel, at::Generator>(out, mean, std,
                                                                 generator);
}
Tensor& NormalTensorTensorOut(const Tensor& mean, const Tensor& std,
                              OptionalGenerator generator, Tensor& out) {
  return templates::normal_out_impl<NormalKernel, at::Generator>(out, mean, std,
                                                                 generator);
}

Tensor& Uniform(Tensor& self, double from, double to,
                OptionalGenerator generator) {
  return templates::uniform_impl_<UniformKernel, at::Generator>(self, from, to,
                                                                generator);
}

Tensor& Exponential(Tensor& self, double rate, OptionalGenerator generator) {
  return templates::exponential_impl_<ExponentialKernel, at::Generator>(
      self, rate, generator);
}

Tensor& BernoulliFloat(Tensor& self, double p, OptionalGenerator generator) {
  return templates::bernoulli_impl_<BernoulliKernel, at::Generator>(self, p,
                                                                    generator);
}
Tensor& BernoulliTensor(Tensor& self, const Tensor& p,
                        OptionalGenerator generator) {
  return templates::bernoulli_impl_<BernoulliTensorKernel, at::Generator>(
      self, p, generator);
}
Tensor& BernoulliOut(const Tensor& self, OptionalGenerator generator,
                     Tensor& out) {
  return templates::bernoulli_out_impl<BernoulliTensorKernel, at::Generator>(
      out, self, generator);
}

Tensor& RandomFrom(Tensor& self, int64_t from, std::optional<int64_t> to,
                   OptionalGenerator generator) {
  CheckHasKernels("random_", self.scalar_type());
  return templates::random_from_to_impl<IntegerKernel, at::Generator>(
      self, from, to, generator);
}
Tensor& RandomTo(Tensor& self, int64_t to, OptionalGenerator generator) {
  return RandomFrom(self, 0, to, generator);
}

// Number of digits of a float type's integers.
int DigitsOf(ScalarType type) {
  switch (type) {
    case ScalarType::BFloat16:
      return std::numeric_limits<at::BFloat16>::digits;
    case ScalarType::Half:
      return std::numeric_limits<at::Half>::digits;
    case ScalarType::Float:
      return std::numeric_limits<float>::digits;
    default:
      return std::numeric_limits<double>::digits;
  }
}

// All non-negative values of the type; for floats, up to where integers are
// exact.
Tensor& RandomAny(Tensor& self, OptionalGenerator generator) {
  if (self.is_floating_point()) {
    CheckHasKernels("random_", self.scalar_type());
    if (self.numel() == 0) return self;
    Fill(self,
         {.distribution = Distribution::kInteger,
          .high = (int64_t{1} << DigitsOf(self.scalar_type())) + 1},
         generator);
    return self;
  }
  return RandomFrom(self, 0, std::nullopt, generator);
}

// Shuffled on the host, which needs no values of the device, from a seed that
// the device's generator gives.
Tensor& RandpermOut(int64_t n, OptionalGenerator generator, Tensor& out) {
  TORCH_CHECK(n >= 0, "n must be non-negative, got", n);
  const PhiloxPoint point = PhiloxNext(generator, out.device(), 1);
  const at::Generator host_generator = at::detail::createCPUGenerator(
      point.seed ^ (point.offset + 1) * 0x9E3779B97F4A7C15u);
  out.resize_({n});
  if (n == 0) return out;
  out.copy_(at::randperm(n, host_generator,
                         at::TensorOptions(at::kCPU).dtype(out.scalar_type())));
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("normal_", &Normal);
  m.impl("normal.Tensor_float", &NormalTensorFloat);
  m.impl("normal.float_Tensor", &NormalFloatTensor);
  m.impl("normal.Tensor_Tensor", &NormalTensorTensor);
  m.impl("normal.Tensor_float_out", &NormalTensorFloatOut);
  m.impl("normal.float_Tensor_out", &NormalFloatTensorOut);
  m.impl("normal.Tensor_Tensor_out", &NormalTensorTensorOut);
  m.impl("uniform_", &Uniform);
  m.impl("exponential_", &Exponential);
  m.impl("bernoulli_.float", &BernoulliFloat);
  m.impl("bernoulli_.Tensor", &BernoulliTensor);
  m.impl("bernoulli.out", &BernoulliOut);
  m.impl("random_.from", &RandomFrom);
  m.impl("random_.to", &RandomTo);
  m.impl("random_", &RandomAny);
  m.impl("randperm.generator_out", &RandpermOut);
}

}  // namespace tvarant::torch_plugin
