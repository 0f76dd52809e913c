// Launches for tests of the rules, built operand by operand.
//
//   Launch launch(Kernel::kSoftmax);
//   launch.Dst(DType::kFloat32, {2, 3}).Src(DType::kFloat32, {2, 3}).Int(1);
//   EXPECT_EQ(launch.Check(), "");

#ifndef TVARANT_PROTO_OPS_RULE_TEST_UTIL_H_
#define TVARANT_PROTO_OPS_RULE_TEST_UTIL_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "proto/ops/program.h"
#include "proto/ops/shape_rules.h"
#include "proto/wire/launch_params.h"

namespace tvarant::rules {

class Launch {
 public:
  using Dims = std::vector<int64_t>;

  explicit Launch(Kernel kernel) { params.kernel = kernel; }

  Launch& Dst(DType dtype, Dims sizes, Dims strides = {}) {
    dst.push_back(Make(dtype, std::move(sizes), std::move(strides)));
    return *this;
  }
  Launch& Src(DType dtype, Dims sizes, Dims strides = {}) {
    src.push_back(Make(dtype, std::move(sizes), std::move(strides)));
    return *this;
  }
  Launch& NoDst() {
    dst.emplace_back();
    return *this;
  }
  Launch& NoSrc() {
    src.emplace_back();
    return *this;
  }
  Launch& Int(int64_t value) {
    ints.push_back(value);
    return *this;
  }
  Launch& Float(double value) {
    floats.push_back(value);
    return *this;
  }
  Launch& Mnk(int64_t batch, int64_t m, int64_t n, int64_t k) {
    params.batch = batch;
    params.m = m;
    params.n = n;
    params.k = k;
    return *this;
  }
  Launch& Flags(uint32_t flags) {
    params.flags = flags;
    return *this;
  }

  // The error sentence of CheckLaunch, empty when it passes.
  std::string Check(const Program* program = nullptr) {
    const absl::Status status = CheckLaunch(Params(), program);
    return std::string(status.message());
  }

  const LaunchParams& Params() {
    params.dst = dst.data();
    params.num_dst = static_cast<int>(dst.size());
    params.src = src.data();
    params.num_src = static_cast<int>(src.size());
    params.ints = ints.data();
    params.num_ints = static_cast<int>(ints.size());
    params.floats = floats.data();
    params.num_floats = static_cast<int>(floats.size());
    return params;
  }

  LaunchParams params;
  std::vector<Operand> dst, src;
  std::vector<int64_t> ints;
  std::vector<double> floats;

 private:
  Operand Make(DType dtype, Dims sizes, Dims strides) {
    if (strides.empty()) {
      strides.resize(sizes.size());
      uint64_t stride = 1;  // wraps: some tests ask for impossible sizes
      for (size_t i = sizes.size(); i-- > 0;) {
        strides[i] = static_cast<int64_t>(stride);
        if (sizes[i] > 1) stride *= static_cast<uint64_t>(sizes[i]);
      }
    }
    dims_.push_back(std::move(sizes));
    const Dims& kept_sizes = dims_.back();
    dims_.push_back(std::move(strides));
    return {.segment = 1,
            .offset_bytes = 0,
            .dtype = dtype,
            .rank = static_cast<uint8_t>(kept_sizes.size()),
            .sizes = kept_sizes.data(),
            .strides = dims_.back().data()};
  }

  std::deque<Dims> dims_;  // stays where it is
};

}  // namespace tvarant::rules

#endif  // TVARANT_PROTO_OPS_RULE_TEST_UTIL_H_
