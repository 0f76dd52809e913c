#include "tests/conformance/backend.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"

namespace tvarant::conformance {
namespace {

constexpr uint64_t kAlignment = 512;

}  // namespace

absl::Status Backend::Run(Launch& launch) {
  // Where each tensor stands in the arena.
  std::map<const Tensor*, uint64_t> address_of;
  std::vector<Tensor*> tensors;
  std::vector<uint64_t> addresses;
  uint64_t used = 0;
  const auto place = [&](Tensor* tensor) {
    if (tensor == nullptr || !address_of.emplace(tensor, used).second) return;
    tensors.push_back(tensor);
    addresses.push_back(used);
    used += (tensor->bytes().size() + kAlignment - 1) / kAlignment * kAlignment;
  };
  for (Tensor* tensor : launch.dst) place(tensor);
  for (const Tensor* tensor : launch.src) place(const_cast<Tensor*>(tensor));
  if (used > kArenaBytes) {
    return absl::InternalError("the case needs a larger arena");
  }

  const auto to_operand = [&](const Tensor* tensor) {
    Operand operand;
    if (tensor == nullptr) return operand;
    operand.segment = kArenaSegment;
    operand.offset_bytes = address_of.at(tensor) + tensor->offset_bytes();
    operand.dtype = tensor->dtype();
    operand.rank = static_cast<uint8_t>(tensor->rank());
    operand.sizes = tensor->sizes().data();
    operand.strides = tensor->strides().data();
    return operand;
  };
  std::vector<Operand> dst, src;
  for (const Tensor* tensor : launch.dst) dst.push_back(to_operand(tensor));
  for (const Tensor* tensor : launch.src) src.push_back(to_operand(tensor));
  LaunchParams& params = launch.params;
  params.ints = launch.ints.data();
  params.num_ints = static_cast<int>(launch.ints.size());
  params.floats = launch.floats.data();
  params.num_floats = static_cast<int>(launch.floats.size());
  params.dst = dst.data();
  params.num_dst = static_cast<int>(dst.size());
  params.src = src.data();
  params.num_src = static_cast<int>(src.size());

  std::vector<std::vector<char>> before;
  for (const Tensor* tensor : tensors) before.push_back(tensor->bytes());
  RETURN_IF_ERROR(DoRun(params, launch.program, tensors, addresses));
  for (size_t i = 0; i < tensors.size(); ++i) {
    bool is_dst = false;
    for (const Tensor* tensor : launch.dst) is_dst |= tensor == tensors[i];
    if (is_dst) {
      RETURN_IF_ERROR(tensors[i]->CheckGaps(before[i]));
    } else if (tensors[i]->bytes() != before[i]) {
      return absl::InternalError(
          absl::StrCat(tensors[i]->Describe(), ": an input was changed"));
    }
  }
  return absl::OkStatus();
}

}  // namespace tvarant::conformance
