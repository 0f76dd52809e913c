// PartOf: some dimensions of an operand, or others over its memory.
//
//   PartOf kept(x);                  // no dimensions yet
//   kept.Add(x, 0, dim).Add(x, dim + 1, x.rank);
//   JoinedViews({kept.get(), ...}, ...)

#ifndef TVARANT_DAEMON_KERNELS_OPENCL_PART_OF_H_
#define TVARANT_DAEMON_KERNELS_OPENCL_PART_OF_H_

#include <cstdint>

#include "daemon/runtime/opencl/kernel_context.h"
#include "daemon/runtime/runtime.h"

namespace tvarant::opencl {

class PartOf {
 public:
  explicit PartOf(const ResolvedOperand& of) : operand_(of) {
    operand_.rank = 0;
    operand_.sizes = sizes_;
    operand_.strides = strides_;
  }
  PartOf(const PartOf&) = delete;
  PartOf& operator=(const PartOf&) = delete;

  PartOf& Add(int64_t size, int64_t stride) {
    sizes_[operand_.rank] = size;
    strides_[operand_.rank++] = stride;
    return *this;
  }
  // Dimensions [begin, end) of another operand.
  PartOf& Add(const ResolvedOperand& of, int begin, int end) {
    for (int d = begin; d < end; ++d) Add(of.sizes[d], of.strides[d]);
    return *this;
  }

  const ResolvedOperand* get() const { return &operand_; }
  ClView view() const { return ViewOf(operand_); }

 private:
  ResolvedOperand operand_;
  int64_t sizes_[kMaxRank];
  int64_t strides_[kMaxRank];
};

// Whether kernels of this device can compute with a dtype.
inline bool Computes(const KernelContext& context, DType dtype) {
  return context.traits().has_double ||
         (dtype != DType::kFloat64 && dtype != DType::kComplex128);
}

}  // namespace tvarant::opencl

#endif  // TVARANT_DAEMON_KERNELS_OPENCL_PART_OF_H_
