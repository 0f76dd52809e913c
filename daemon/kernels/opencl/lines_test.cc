#include "daemon/kernels/opencl/lines.h"

#include "gtest/gtest.h"

namespace tvarant::opencl {
namespace {

DeviceTraits TraitsOf(uint32_t group, uint32_t units) {
  DeviceTraits traits;
  traits.group_size = group;
  traits.max_group_size = 1024;
  traits.compute_units = units;
  return traits;
}

bool IsPowerOfTwo(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

TEST(LinesTest, CoverRowsAndElements) {
  for (const uint32_t group : {1u, 32u, 48u, 64u, 256u, 1024u}) {
    for (const uint32_t units : {1u, 8u, 132u}) {
      const DeviceTraits traits = TraitsOf(group, units);
      for (const int64_t rows : {1, 3, 33, 1000, 100000}) {
        for (const int64_t count : {0, 1, 5, 64, 4097, 1000000}) {
          for (const bool by_columns : {false, true}) {
            for (const LineShape& lines :
                 {LinesOf(traits, rows, count, by_columns),
                  WholeLinesOf(traits, rows, count, by_columns, 16)}) {
              SCOPED_TRACE(testing::Message()
                           << group << " items, " << units << " units, " << rows
                           << " rows of " << count);
              ASSERT_TRUE(IsPowerOfTwo(lines.group));
              ASSERT_LE(lines.group, group);
              ASSERT_TRUE(IsPowerOfTwo(lines.height));
              ASSERT_LE(lines.height, static_cast<int64_t>(lines.group));
              ASSERT_GE(lines.pieces, 1);
              ASSERT_GE(lines.piece * lines.pieces, count);
              // No piece is empty, unless rows are.
              ASSERT_TRUE(lines.pieces == 1 ||
                          lines.piece * (lines.pieces - 1) < count);
              const int64_t width = lines.group / lines.height;
              const int64_t groups = lines.num_groups / lines.pieces;
              ASSERT_EQ(lines.num_groups % lines.pieces, 0);
              ASSERT_GE(groups * width, rows);
              ASSERT_LT((groups - 1) * width, rows);
            }
          }
        }
      }
    }
  }
}

TEST(LinesTest, FewLongRowsAreCut) {
  const DeviceTraits traits = TraitsOf(256, 132);
  EXPECT_GT(LinesOf(traits, 1, 1 << 24, false).num_groups, 500);
  EXPECT_EQ(LinesOf(traits, 100000, 4096, false).pieces, 1);
  EXPECT_EQ(LinesOf(traits, 1, 1000, false).pieces, 1);
}

TEST(LinesTest, ManyRowsHaveFewItemsEach) {
  const DeviceTraits traits = TraitsOf(256, 132);
  EXPECT_EQ(LinesOf(traits, 32768, 4096, false).height, 64);
  EXPECT_EQ(LinesOf(traits, 32768, 1000, false).height, 32);
  EXPECT_EQ(LinesOf(traits, 32768, 100, false).height, 32);
  EXPECT_EQ(LinesOf(traits, 300, 4096, false).height, 256);
}

TEST(LinesTest, KeepsWhatFits) {
  const DeviceTraits traits = TraitsOf(256, 132);
  EXPECT_EQ(KeepOf(traits, 8192, 1000, false), 4);
  EXPECT_EQ(KeepOf(traits, 8192, 4096, false), 16);
  EXPECT_EQ(KeepOf(traits, 8192, 8192, false), 32);
  EXPECT_EQ(KeepOf(traits, 8192, 8193, false), 0);
  // Side by side, a group has 32 rows at least.
  EXPECT_EQ(KeepOf(traits, 8192, 8 * 32, true), 32);
  EXPECT_EQ(KeepOf(traits, 8192, 8 * 32 + 1, true), 0);
  EXPECT_EQ(KeepOf(TraitsOf(32, 4), 8192, 1024, false), 32);
}

// [4, 6, 5] along dimension 1, the input transposed.
TEST(LinesTest, SplitsRows) {
  const int64_t sizes[] = {4, 6, 5};
  const int64_t dense[] = {30, 5, 1}, transposed[] = {1, 4, 24};
  ResolvedOperand y, x;
  y.rank = x.rank = 3;
  y.sizes = x.sizes = sizes;
  y.strides = dense;
  x.strides = transposed;
  const ResolvedOperand* const tensors[] = {&y, &x};
  const RowSet set = SplitRows(tensors, 1);
  EXPECT_EQ(set.num_rows, 20);
  EXPECT_EQ(set.n, 6);
  EXPECT_EQ(set.steps[0], 5);
  EXPECT_EQ(set.steps[1], 4);
  // In the order of x: its first dimension is the nearest.
  EXPECT_TRUE(set.by_columns);
  ASSERT_EQ(set.rows.rank, 2);
  EXPECT_EQ(set.rows.sizes[1], 4);
  EXPECT_EQ(set.rows.strides[0][1], 30);
  EXPECT_EQ(set.rows.strides[1][1], 1);
  EXPECT_EQ(set.rows.strides[0][0], 1);
  EXPECT_EQ(set.rows.strides[1][0], 24);

  ResolvedOperand scalar;
  const ResolvedOperand* const one[] = {&scalar};
  const RowSet single = SplitRows(one, 0);
  EXPECT_EQ(single.num_rows, 1);
  EXPECT_EQ(single.n, 1);
}

}  // namespace
}  // namespace tvarant::opencl
