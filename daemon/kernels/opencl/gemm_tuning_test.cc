#include "daemon/kernels/opencl/gemm_tuning.h"

#include "gtest/gtest.h"

namespace tvarant::opencl {
namespace {

DeviceTraits TraitsOf(const char* name, uint32_t group_size, uint32_t units) {
  DeviceTraits traits;
  traits.name = name;
  traits.group_size = group_size;
  traits.max_group_size = 1024;
  traits.compute_units = units;
  traits.local_bytes = 48 << 10;
  traits.is_nvidia = traits.name.find("NVIDIA") != std::string::npos;
  return traits;
}

// What gemm_tile.cl relies on.
void ExpectSound(const DeviceTraits& traits, const GemmShape& shape) {
  const GemmConfig& c = ChooseGemmConfig(traits, shape);
  EXPECT_EQ(c.item_m % 4, 0);
  EXPECT_EQ(c.item_n % 4, 0);
  EXPECT_EQ(c.tile_m % c.item_m, 0);
  EXPECT_EQ(c.tile_n % c.item_n, 0);
  EXPECT_EQ(c.tile_k % 4, 0);
  EXPECT_GE(c.tile_m * c.tile_k, 4 * c.items());
  EXPECT_EQ(c.tile_m * c.tile_k % (4 * c.items()), 0);
  EXPECT_EQ(c.tile_n * c.tile_k % (4 * c.items()), 0);
  EXPECT_LE(c.items(), static_cast<int>(traits.max_group_size));
}

TEST(GemmTuningTest, EveryChoiceSuitsTheKernel) {
  for (const char* name : {"NVIDIA H200", "Tvarant card", "some GPU"}) {
    for (const uint32_t group : {32u, 64u, 256u}) {
      for (const uint32_t largest : {32u, 128u, 1024u}) {
        DeviceTraits traits = TraitsOf(name, group, 16);
        traits.max_group_size = largest;
        for (const int64_t n : {1, 100, 1000, 100000}) {
          for (const int sum_bytes : {4, 8}) {
            ExpectSound(traits, {n, n, 1, sum_bytes});
          }
        }
      }
    }
  }
}

TEST(GemmTuningTest, GroupsOf32OnTheCard) {
  for (const int64_t n : {1, 64, 4096}) {
    EXPECT_EQ(ChooseGemmConfig(TraitsOf("Tvarant card", 32, 16), {n, n, 1, 4})
                  .items(),
              32);
  }
}

TEST(GemmTuningTest, SmallerTilesForSmallerProducts) {
  const DeviceTraits traits = TraitsOf("NVIDIA H200", 256, 132);
  EXPECT_EQ(ChooseGemmConfig(traits, {8192, 8192, 1, 4}).tile_n, 256);
  EXPECT_EQ(ChooseGemmConfig(traits, {2048, 2048, 1, 4}).tile_n, 128);
  EXPECT_EQ(ChooseGemmConfig(traits, {512, 512, 1, 4}).tile_n, 64);
  // As many by a batch.
  EXPECT_EQ(ChooseGemmConfig(traits, {512, 512, 64, 4}).tile_n, 256);
  EXPECT_EQ(ChooseGemmConfig(traits, {8192, 8192, 1, 8}).tile_n, 64);
}

TEST(GemmTuningTest, LittleLocalMemory) {
  DeviceTraits traits = TraitsOf("some GPU", 64, 16);
  traits.local_bytes = 8 << 10;
  const GemmConfig& config = ChooseGemmConfig(traits, {4096, 4096, 1, 4});
  EXPECT_LE(2 * config.tile_k * (config.tile_m + config.tile_n + 8) * 4,
            8 << 10);
}

}  // namespace
}  // namespace tvarant::opencl
