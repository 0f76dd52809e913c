#include "proto/ops/op_table_hash.h"

#include <gtest/gtest.h>

#include <set>

#include "proto/ops/op_table_rows.h"

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

TEST(OpTableRowsTest, ARowIsOneNumberAndTellsWhatItMeans) {
  std::set<uint64_t> packed;
  std::set<uint32_t> hashes;
  bool has_gemm = false;
  for (const OpTableRow& row : OpTableRows()) {
    EXPECT_LT(row.id, 1u << 16);
    EXPECT_TRUE(packed.insert(row.Packed()).second) << row.id;
    hashes.insert(row.hash);
    has_gemm = has_gemm ||
               row.Packed() >> 32 ==
                   (uint64_t{1} << 16 | static_cast<uint64_t>(Kernel::kGemm));
  }
  EXPECT_TRUE(has_gemm);
  EXPECT_EQ(hashes.size(), packed.size());
}

}  // namespace
}  // namespace tvarant
