#include "daemon/kernels/opencl/gemm_tuning.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace tvarant::opencl {
namespace {

struct TunedConfig {
  const char* device;  // see KeyOf
  int sum_bytes;       // at most
  double fill;         // groups that each compute unit must get
  GemmConfig config;
};

// For each device the largest tiles first. Each divides evenly: the items of a
// group load tile_m x tile_k and tile_n x tile_k elements, four at a time.
// The H200's as measured: with 128 x 256 two rounds and more gain by it.
constexpr TunedConfig kConfigs[] = {
    // clang-format off
    // device       sum fill    m    n   k  item
    {"nvidia h200",  4, 2.0, {128, 256, 16, 8, 16}},
    {"nvidia h200",  4, 0.7, {128, 128, 16, 8,  8}},
    {"nvidia h200",  8, 0.7, { 64,  64, 16, 4,  4}},
    {"tvarant",      4, 0.7, { 32,  64,  8, 8,  8}},
    {"tvarant",      8, 0.7, { 32,  16,  8, 4,  4}},
    {"cpu",          8, 0.7, { 32,  32, 16, 4,  4}},
    {"default",      4, 0.7, {128, 128, 16, 8,  8}},
    {"default",      8, 0.7, { 64,  64, 16, 4,  4}},
    // clang-format on
};
// Where groups are small.
constexpr GemmConfig kSmallest = {32, 16, 8, 4, 4};
// NVIDIA gives arrays that a kernel declares more than its driver tells of.
constexpr uint64_t kNvidiaLocalBytes = 64 << 10;

const char* KeyOf(const DeviceTraits& traits) {
  const std::string name = absl::AsciiStrToLower(traits.name);
  const std::string vendor = absl::AsciiStrToLower(traits.vendor);
  if (absl::StrContains(name, "tvarant") ||
      absl::StrContains(vendor, "tvarant") || traits.group_size <= 32) {
    return "tvarant";
  }
  if (absl::StrContains(name, "h200") || absl::StrContains(name, "h100")) {
    return "nvidia h200";
  }
  return traits.is_cpu ? "cpu" : "default";
}

bool Fits(const DeviceTraits& traits, const GemmConfig& config, int sum_bytes) {
  const uint64_t local_bytes =
      uint64_t{2} * static_cast<uint64_t>(config.tile_k) *
      static_cast<uint64_t>(config.tile_m + config.tile_n + 8) *
      static_cast<uint64_t>(sum_bytes);
  const uint64_t most = traits.is_nvidia
                            ? std::max(traits.local_bytes, kNvidiaLocalBytes)
                            : traits.local_bytes;
  return static_cast<uint32_t>(config.items()) <= traits.max_group_size &&
         local_bytes <= most;
}

}  // namespace

const GemmConfig& ChooseGemmConfig(const DeviceTraits& traits,
                                   const GemmShape& shape) {
  const absl::string_view key = KeyOf(traits);
  const GemmConfig* chosen = nullptr;
  for (const TunedConfig& row : kConfigs) {
    const GemmConfig& config = row.config;
    if (key != row.device || shape.sum_bytes > row.sum_bytes ||
        !Fits(traits, config, shape.sum_bytes)) {
      continue;
    }
    chosen = &config;
    const double tiles =
        static_cast<double>((shape.m + config.tile_m - 1) / config.tile_m) *
        static_cast<double>((shape.n + config.tile_n - 1) / config.tile_n) *
        static_cast<double>(shape.batch);
    if (tiles >= row.fill * traits.compute_units) break;
  }
  return chosen == nullptr ? kSmallest : *chosen;
}

}  // namespace tvarant::opencl
