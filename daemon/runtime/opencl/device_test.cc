#include "daemon/runtime/opencl/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tvarant::opencl {
namespace {

using testing::HasSubstr;

cl_platform_id Platform(int number) {
  return reinterpret_cast<cl_platform_id>(static_cast<intptr_t>(number));
}

FoundDevice Found(int platform, const char* platform_name, const char* name,
                  DeviceKind kind) {
  FoundDevice found;
  found.platform = Platform(platform);
  found.traits.platform_name = platform_name;
  found.traits.name = name;
  found.traits.kind = kind;
  found.traits.max_group_size = 256;
  found.traits.group_size = 64;
  return found;
}

// Two platforms: a processor; two cards of one kind and one of another.
std::vector<FoundDevice> Machine() {
  return {Found(1, "Portable", "some CPU", DeviceKind::kOther),
          Found(2, "Cards", "Tvarant A", DeviceKind::kTvarant),
          Found(2, "Cards", "Big GPU", DeviceKind::kGpu),
          Found(2, "Cards", "Tvarant B", DeviceKind::kTvarant)};
}

std::vector<std::string> Names(
    const absl::StatusOr<std::vector<FoundDevice>>& chosen) {
  std::vector<std::string> names;
  if (!chosen.ok()) return {std::string(chosen.status().message())};
  for (const FoundDevice& device : *chosen) names.push_back(device.traits.name);
  return names;
}

TEST(ChooseDevicesTest, WithoutAChoiceAllCardsOfTheBestKind) {
  EXPECT_THAT(Names(ChooseDevices(Machine(), {})),
              testing::ElementsAre("Tvarant A", "Tvarant B"));
}

TEST(ChooseDevicesTest, ByPartOfANameOrByNumber) {
  EXPECT_THAT(Names(ChooseDevices(Machine(), {.platform = "portable"})),
              testing::ElementsAre("some CPU"));
  EXPECT_THAT(Names(ChooseDevices(Machine(), {.platform = "1", .device = "1"})),
              testing::ElementsAre("Big GPU"));
  EXPECT_THAT(Names(ChooseDevices(Machine(), {.device = "big, tvarant b"})),
              testing::ElementsAre("Big GPU", "Tvarant B"));
}

TEST(ChooseDevicesTest, NoMatchListsWhatThereIs) {
  auto chosen = ChooseDevices(Machine(), {.device = "quantum"});
  EXPECT_EQ(chosen.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(chosen.status().message()),
              HasSubstr("platform 1 \"Cards\" with device 0 \"Tvarant A\", "
                        "device 1 \"Big GPU\""));
  chosen = ChooseDevices(Machine(), {.platform = "2"});
  EXPECT_EQ(chosen.status().code(), absl::StatusCode::kNotFound);
  chosen = ChooseDevices({}, {});
  EXPECT_THAT(std::string(chosen.status().message()), HasSubstr("driver"));
}

TEST(ChooseDevicesTest, GroupSizeIsBounded) {
  auto chosen = ChooseDevices(Machine(), {.device = "big", .group_size = 128});
  ASSERT_TRUE(chosen.ok());
  EXPECT_EQ((*chosen)[0].traits.group_size, 128u);
  chosen = ChooseDevices(Machine(), {.device = "big", .group_size = 512});
  EXPECT_EQ(chosen.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ListDevicesTest, FindsADeviceThatOpens) {
  const auto found = ListDevices();
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_FALSE(found->empty());
  const DeviceTraits& traits = (*found)[0].traits;
  EXPECT_FALSE(traits.name.empty());
  EXPECT_GE(traits.max_group_size, traits.group_size);
  EXPECT_GT(traits.global_bytes, 0u);
  const auto device = Device::Open((*found)[0]);
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_TRUE((*device)->MakeQueue().ok());
}

}  // namespace
}  // namespace tvarant::opencl
