// Random numbers of the device: a Philox generator's seed and offset.
//
// The numbers themselves are made by the device; a launch says which (see
// "Random numbers" in proto/ops/kernels.md). So seeding, saving and restoring
// the state need no word with the daemon, and the same seed gives the same
// numbers on every runtime.
//
// Example:
//   PhiloxPoint point = PhiloxNext(generator, self.device(), (n + 3) / 4);
//   launch.Int(point.seed).Int(point.offset)...

#ifndef TVARANT_TORCH_PLUGIN_RUNTIME_GENERATOR_H_
#define TVARANT_TORCH_PLUGIN_RUNTIME_GENERATOR_H_

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>
#include <c10/core/GeneratorImpl.h>

#include <cstdint>
#include <optional>

namespace tvarant::torch_plugin {

struct PhiloxPoint {
  uint64_t seed = 0;
  uint64_t offset = 0;
};

// The next `counters` counters of the generator (the device's default one if
// there is none), which moves past them. Thread-safe.
PhiloxPoint PhiloxNext(const std::optional<at::Generator>& generator,
                       c10::Device device, uint64_t counters);

// Not derived from CPUGeneratorImpl, whose clones are CPU generators.
// As with PyTorch's other generators, callers lock mutex_.
class PhiloxGenerator final : public c10::GeneratorImpl {
 public:
  // State shared between generators by graphsafe_set_state.
  struct State : public c10::intrusive_ptr_target {
    uint64_t seed = c10::default_rng_seed_val;
    uint64_t offset = 0;
  };

  explicit PhiloxGenerator(c10::DeviceIndex index);
  PhiloxGenerator(c10::DeviceIndex index, c10::intrusive_ptr<State> state);

  static c10::DeviceType device_type() { return c10::DeviceType::PrivateUse1; }

  void set_current_seed(uint64_t seed) override;
  uint64_t current_seed() const override;
  uint64_t seed() override;  // a new one, not deterministic
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  // A CPU tensor of 16 bytes: seed, offset.
  void set_state(const c10::TensorImpl& new_state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  void graphsafe_set_state(
      const c10::intrusive_ptr<c10::GeneratorImpl>& new_state) override;
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override;

  PhiloxPoint Take(uint64_t counters);

 private:
  PhiloxGenerator* clone_impl() const override;

  c10::intrusive_ptr<State> state_;
};

// The generator of torch.manual_seed; made once, never destroyed.
const at::Generator& DefaultGenerator(c10::DeviceIndex index);
at::Generator NewGenerator(c10::DeviceIndex index);

}  // namespace tvarant::torch_plugin

#endif  // TVARANT_TORCH_PLUGIN_RUNTIME_GENERATOR_H_
