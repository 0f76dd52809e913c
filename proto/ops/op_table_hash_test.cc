#include "proto/ops/op_table_hash.h"

#include <gtest/gtest.h>

namespace tvarant {
namespace {

using op_table_internal::Mix;

TEST(OpTableHashTest, IsKnownAtCompileTime) {
  static_assert(kOpTableHash != 0);
  EXPECT_EQ(kOpTableHash, op_table_internal::HashTables());
}

TEST(OpTableHashTest, TellsFieldsApart) {
  EXPECT_NE(Mix(Mix(1, "ab"), "c"), Mix(Mix(1, "a"), "bc"));
  EXPECT_NE(Mix(1, ""), 1u);
  // FNV-1a of "a", then the separator.
  constexpr uint64_t kFnvOfA = 0xaf63dc4c8601ec8cu;
  EXPECT_EQ(Mix(0xcbf29ce484222325u, "a"), (kFnvOfA ^ 0xffu) * 0x100000001b3u);
}

}  // namespace
}  // namespace tvarant
