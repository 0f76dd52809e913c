#include "daemon/kernels/host/pointwise/layout.h"

#include <utility>

#include "proto/base/strided.h"

namespace tvarant::host {
namespace {

// Rows shorter than this cost more in calls than in work.
constexpr int64_t kMinRow = 256;

void SetOperand(const Tensor& tensor, OperandLayout* operand) {
  operand->data = tensor.data;
  operand->element_bytes = static_cast<int64_t>(SizeOf(tensor.dtype));
}

bool AllContiguous(absl::Span<const Tensor> tensors) {
  for (const Tensor& tensor : tensors) {
    if (!base::IsContiguous(tensor.sizes, tensor.strides, tensor.rank)) {
      return false;
    }
  }
  return true;
}

// Collects the dimensions of more than one element, in the order of memory of
// the first output.
int OrderDimensions(const Tensor& first, int (&order)[kMaxRank]) {
  int rank = 0;
  for (int dim = 0; dim < first.rank; ++dim) {
    if (first.sizes[dim] == 1) continue;
    int at = rank++;
    for (; at > 0 && first.strides[order[at - 1]] < first.strides[dim]; --at) {
      order[at] = order[at - 1];
    }
    order[at] = dim;
  }
  return rank;
}

template <typename Body>
void ForEachOperand(Layout* layout, const Body& body) {
  for (int i = 0; i < layout->num_dst; ++i) body(&layout->operands[i]);
  for (int i = 0; i < layout->num_src; ++i) {
    body(&layout->operands[kFirstSrc + i]);
  }
}

// Joins neighbouring dimensions that every operand walks as one.
void Coalesce(Layout* layout) {
  int kept = 0;
  for (int dim = 1; dim < layout->rank; ++dim) {
    bool joins = true;
    ForEachOperand(layout, [&](OperandLayout* operand) {
      joins &=
          operand->strides[kept] == operand->strides[dim] * layout->sizes[dim];
    });
    if (joins) {
      layout->sizes[kept] *= layout->sizes[dim];
    } else {
      layout->sizes[++kept] = layout->sizes[dim];
    }
    ForEachOperand(layout, [&](OperandLayout* operand) {
      operand->strides[kept] = operand->strides[dim];
    });
  }
  layout->rank = kept + 1;
}

void Describe(const Layout& layout, OperandLayout* operand) {
  const int last = layout.rank - 1;
  operand->inner_stride = operand->strides[last];
  operand->dense_inner = operand->inner_stride == operand->element_bytes ||
                         layout.sizes[last] == 1;
  bool uniform = true, dense = true;
  int64_t expected = operand->element_bytes;
  for (int dim = last; dim >= 0; --dim) {
    uniform &= operand->strides[dim] == 0;
    dense &= operand->strides[dim] == expected;
    expected *= layout.sizes[dim];
  }
  operand->uniform = uniform;
  operand->dense = dense;
}

}  // namespace

void BuildLayout(absl::Span<const Tensor> dst, absl::Span<const Tensor> src,
                 Layout* layout) {
  const Tensor& first = dst[0];
  layout->num_elements = first.numel();
  layout->num_dst = static_cast<int>(dst.size());
  layout->num_src = static_cast<int>(src.size());
  for (size_t i = 0; i < dst.size(); ++i) {
    SetOperand(dst[i], &layout->operands[i]);
  }
  for (size_t i = 0; i < src.size(); ++i) {
    SetOperand(src[i], &layout->operands[kFirstSrc + i]);
  }
  if (layout->num_elements <= 1 || (AllContiguous(dst) && AllContiguous(src))) {
    layout->rank = 1;
    layout->by_rows = true;
    layout->sizes[0] = layout->num_elements;
    ForEachOperand(layout, [layout](OperandLayout* operand) {
      operand->strides[0] = operand->inner_stride = operand->element_bytes;
      operand->uniform = layout->num_elements <= 1;
      operand->dense = operand->dense_inner = true;
    });
    return;
  }

  int order[kMaxRank];
  layout->rank = OrderDimensions(first, order);
  const auto set_strides = [&](const Tensor& tensor, OperandLayout* operand) {
    for (int i = 0; i < layout->rank; ++i) {
      operand->strides[i] = tensor.strides[order[i]] * operand->element_bytes;
    }
  };
  for (int i = 0; i < layout->rank; ++i) {
    layout->sizes[i] = first.sizes[order[i]];
  }
  for (size_t i = 0; i < dst.size(); ++i) {
    set_strides(dst[i], &layout->operands[i]);
  }
  for (size_t i = 0; i < src.size(); ++i) {
    set_strides(src[i], &layout->operands[kFirstSrc + i]);
  }
  Coalesce(layout);
  layout->by_rows = layout->rank == 1 || layout->inner_size() >= kMinRow;
  ForEachOperand(
      layout, [layout](OperandLayout* operand) { Describe(*layout, operand); });
}

}  // namespace tvarant::host
