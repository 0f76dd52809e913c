#include "proto/base/status_macros.h"

#include <gtest/gtest.h>

#include <memory>

namespace tvarant {
namespace {

absl::Status Fail() { return absl::DataLossError("lost"); }

absl::Status ReturnsFirstError(int* reached) {
  RETURN_IF_ERROR(absl::OkStatus());
  *reached = 1;
  RETURN_IF_ERROR(Fail());
  *reached = 2;
  return absl::OkStatus();
}

TEST(StatusMacrosTest, ReturnIfError) {
  int reached = 0;
  EXPECT_EQ(ReturnsFirstError(&reached), absl::DataLossError("lost"));
  EXPECT_EQ(reached, 1);
}

absl::StatusOr<std::unique_ptr<int>> MakeInt(int value) {
  if (value < 0) return absl::InvalidArgumentError("negative");
  return std::make_unique<int>(value);
}

absl::StatusOr<int> Sum(int a, int b) {
  ASSIGN_OR_RETURN(const std::unique_ptr<int> x, MakeInt(a));
  ASSIGN_OR_RETURN(std::unique_ptr<int> y, MakeInt(b));
  ASSIGN_OR_RETURN(y, MakeInt(*x + *y));
  return *y;
}

TEST(StatusMacrosTest, AssignOrReturn) {
  EXPECT_EQ(*Sum(2, 3), 5);
  EXPECT_EQ(Sum(2, -3).status(), absl::InvalidArgumentError("negative"));
}

}  // namespace
}  // namespace tvarant
