#include "torch_plugin/runtime/generator.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <array>
#include <cstring>
#include <mutex>
#include <utility>

#include "torch_plugin/runtime/device.h"
#include "torch_plugin/runtime/device_index.h"

namespace tvarant::torch_plugin {
namespace {

constexpr int64_t kStateBytes = 2 * sizeof(uint64_t);

c10::DeviceIndex Resolve(c10::DeviceIndex index) {
  const c10::DeviceIndex resolved = index < 0 ? CurrentDevice() : index;
  CheckDeviceIndex(resolved);
  return resolved;
}

}  // namespace

PhiloxGenerator::PhiloxGenerator(c10::DeviceIndex index)
    : PhiloxGenerator(index, c10::make_intrusive<State>()) {}

PhiloxGenerator::PhiloxGenerator(c10::DeviceIndex index,
                                 c10::intrusive_ptr<State> state)
    : c10::GeneratorImpl(c10::Device(c10::DeviceType::PrivateUse1, index),
                         c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      state_(std::move(state)) {}

void PhiloxGenerator::set_current_seed(uint64_t seed) {
  state_->seed = seed;
  state_->offset = 0;
}

uint64_t PhiloxGenerator::current_seed() const { return state_->seed; }

uint64_t PhiloxGenerator::seed() {
  const uint64_t random = c10::detail::getNonDeterministicRandom();
  set_current_seed(random);
  return random;
}

void PhiloxGenerator::set_offset(uint64_t offset) { state_->offset = offset; }

uint64_t PhiloxGenerator::get_offset() const { return state_->offset; }

void PhiloxGenerator::set_state(const c10::TensorImpl& new_state) {
  TORCH_CHECK(new_state.device().is_cpu() &&
                  new_state.dtype() == caffe2::TypeMeta::Make<uint8_t>() &&
                  new_state.is_contiguous(),
              "RNG state must be a torch.ByteTensor");
  TORCH_CHECK(new_state.numel() == kStateBytes,
              "RNG state is wrong size: ", new_state.numel(),
              " bytes instead of ", kStateBytes);
  const char* bytes = static_cast<const char*>(new_state.data());
  std::memcpy(&state_->seed, bytes, sizeof(uint64_t));
  std::memcpy(&state_->offset, bytes + sizeof(uint64_t), sizeof(uint64_t));
}

c10::intrusive_ptr<c10::TensorImpl> PhiloxGenerator::get_state() const {
  at::Tensor state = at::empty(
      {kStateBytes}, at::TensorOptions().dtype(at::kByte).device(at::kCPU));
  char* bytes = static_cast<char*>(state.mutable_data_ptr());
  std::memcpy(bytes, &state_->seed, sizeof(uint64_t));
  std::memcpy(bytes + sizeof(uint64_t), &state_->offset, sizeof(uint64_t));
  return state.getIntrusivePtr();
}

void PhiloxGenerator::graphsafe_set_state(
    const c10::intrusive_ptr<c10::GeneratorImpl>& new_state) {
  auto* other = dynamic_cast<PhiloxGenerator*>(new_state.get());
  TORCH_CHECK(other != nullptr, "expected a tvarant generator's state");
  state_ = other->state_;
}

c10::intrusive_ptr<c10::GeneratorImpl> PhiloxGenerator::graphsafe_get_state()
    const {
  return c10::make_intrusive<PhiloxGenerator>(device().index(), state_);
}

PhiloxGenerator* PhiloxGenerator::clone_impl() const {
  auto state = c10::make_intrusive<State>();
  state->seed = state_->seed;
  state->offset = state_->offset;
  return new PhiloxGenerator(device().index(), std::move(state));
}

PhiloxPoint PhiloxGenerator::Take(uint64_t counters) {
  const PhiloxPoint point{state_->seed, state_->offset};
  state_->offset += counters;
  return point;
}

const at::Generator& DefaultGenerator(c10::DeviceIndex index) {
  static auto* generators = [] {
    auto* made = new std::array<at::Generator, kDeviceLimit>;
    for (int i = 0; i < kDeviceLimit; ++i) {
      (*made)[static_cast<size_t>(i)] =
          at::make_generator<PhiloxGenerator>(static_cast<c10::DeviceIndex>(i));
    }
    return made;
  }();
  return (*generators)[static_cast<size_t>(Resolve(index))];
}

at::Generator NewGenerator(c10::DeviceIndex index) {
  return at::make_generator<PhiloxGenerator>(Resolve(index));
}

PhiloxPoint PhiloxNext(const std::optional<at::Generator>& generator,
                       c10::Device device, uint64_t counters) {
  const at::Generator& used = generator.has_value() && generator->defined()
                                  ? *generator
                                  : DefaultGenerator(device.index());
  auto* philox = dynamic_cast<PhiloxGenerator*>(used.unsafeGetGeneratorImpl());
  TORCH_CHECK(philox != nullptr, "Expected a '", device.type(),
              "' device type for generator but found '", used.device().type(),
              "'");
  std::lock_guard<std::mutex> lock(philox->mutex_);
  return philox->Take(counters);
}

}  // namespace tvarant::torch_plugin
