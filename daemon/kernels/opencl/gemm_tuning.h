// The tiles that gemm_tile.cl uses, by device and shape. Thread-safe.
//
//   const GemmConfig& config =
//       ChooseGemmConfig(traits, {.m = 4096, .n = 4096});

#ifndef TVARANT_DAEMON_KERNELS_OPENCL_GEMM_TUNING_H_
#define TVARANT_DAEMON_KERNELS_OPENCL_GEMM_TUNING_H_

#include <cstdint>

#include "daemon/runtime/opencl/device.h"

namespace tvarant::opencl {

struct GemmConfig {
  int tile_m, tile_n, tile_k;
  int item_m, item_n;

  int items() const { return tile_m / item_m * (tile_n / item_n); }
};

struct GemmShape {
  int64_t m = 0, n = 0, batch = 1;
  int sum_bytes = 4;  // of one accumulator
};

// The largest tile that still fills the device; else the smallest.
const GemmConfig& ChooseGemmConfig(const DeviceTraits& traits,
                                   const GemmShape& shape);

}  // namespace tvarant::opencl

#endif  // TVARANT_DAEMON_KERNELS_OPENCL_GEMM_TUNING_H_
