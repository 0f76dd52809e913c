#include "proto/base/strided.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <set>
#include <vector>

namespace tvarant::base {
namespace {

using Dims = std::vector<int64_t>;

constexpr int64_t kHuge = int64_t{1} << 62;

// Offsets of all elements in row-major order, by plain nested counting.
std::vector<int64_t> Offsets(const Dims& sizes, const Dims& strides) {
  std::vector<int64_t> offsets = {0};
  for (size_t i = 0; i < sizes.size(); ++i) {
    std::vector<int64_t> next;
    for (const int64_t base : offsets) {
      for (int64_t k = 0; k < sizes[i]; ++k) {
        next.push_back(base + k * strides[i]);
      }
    }
    offsets = next;
  }
  return offsets;
}

bool Overlaps(const Dims& sizes, const Dims& strides) {
  const std::vector<int64_t> offsets = Offsets(sizes, strides);
  return std::set<int64_t>(offsets.begin(), offsets.end()).size() !=
         offsets.size();
}

bool MayOverlap(const Dims& sizes, const Dims& strides) {
  return MayOverlapItself(sizes.data(), strides.data(),
                          static_cast<int>(sizes.size()));
}

TEST(StridedTest, CountsElements) {
  int64_t count = -1;
  EXPECT_TRUE(CheckedNumElements(nullptr, 0, &count));
  EXPECT_EQ(count, 1);
  const Dims sizes = {2, 3, 4};
  EXPECT_TRUE(CheckedNumElements(sizes.data(), 3, &count));
  EXPECT_EQ(count, 24);
  const Dims empty = {kHuge, 0, kHuge};
  EXPECT_TRUE(CheckedNumElements(empty.data(), 3, &count));
  EXPECT_EQ(count, 0);
  const Dims large = {kHuge, 2};
  EXPECT_FALSE(CheckedNumElements(large.data(), 2, &count));
  const Dims negative = {0, -1};
  EXPECT_FALSE(CheckedNumElements(negative.data(), 2, &count));
}

bool Extent(const Dims& sizes, const Dims& strides, size_t element_bytes,
            uint64_t* bytes) {
  return CheckedExtentBytes(sizes.data(), strides.data(),
                            static_cast<int>(sizes.size()), element_bytes,
                            bytes);
}

TEST(StridedTest, MeasuresExtents) {
  uint64_t bytes = 99;
  EXPECT_TRUE(Extent({}, {}, 4, &bytes));
  EXPECT_EQ(bytes, 4u);
  EXPECT_TRUE(Extent({2, 3}, {3, 1}, 4, &bytes));
  EXPECT_EQ(bytes, 24u);
  EXPECT_TRUE(Extent({3, 2}, {1, 10}, 2, &bytes));
  EXPECT_EQ(bytes, 26u);
  EXPECT_TRUE(Extent({kHuge}, {0}, 8, &bytes));
  EXPECT_EQ(bytes, 8u);
  EXPECT_TRUE(Extent({0, kHuge}, {kHuge, kHuge}, 8, &bytes));
  EXPECT_EQ(bytes, 0u);
  EXPECT_FALSE(Extent({kHuge}, {kHuge}, 1, &bytes));
  EXPECT_FALSE(
      Extent({kHuge, kHuge, kHuge, kHuge, kHuge}, {1, 1, 1, 1, 1}, 1, &bytes));
  EXPECT_FALSE(Extent({kHuge}, {1}, 16, &bytes));
  EXPECT_FALSE(Extent({-1}, {1}, 1, &bytes));
  EXPECT_FALSE(Extent({2}, {-1}, 1, &bytes));
}

TEST(StridedTest, KnowsContiguity) {
  const auto contiguous = [](const Dims& sizes, const Dims& strides) {
    return IsContiguous(sizes.data(), strides.data(),
                        static_cast<int>(sizes.size()));
  };
  EXPECT_TRUE(contiguous({}, {}));
  EXPECT_TRUE(contiguous({2, 3}, {3, 1}));
  EXPECT_TRUE(contiguous({2, 1, 3}, {3, 77, 1}));
  EXPECT_TRUE(contiguous({0, 3}, {5, 7}));
  EXPECT_TRUE(contiguous({3, 0}, {5, 7}));
  EXPECT_FALSE(contiguous({2, 3}, {1, 2}));
  EXPECT_FALSE(contiguous({2, 3}, {4, 1}));
  EXPECT_FALSE(contiguous({2}, {0}));
}

TEST(StridedTest, MakesContiguousStrides) {
  const Dims sizes = {2, 0, 3};
  Dims strides(3);
  EXPECT_TRUE(ContiguousStrides(sizes.data(), 3, strides.data()));
  EXPECT_EQ(strides, (Dims{3, 3, 1}));
  const Dims large = {2, kHuge, 2};
  EXPECT_FALSE(ContiguousStrides(large.data(), 3, strides.data()));
}

TEST(StridedTest, AllowsWhatViewsMake) {
  EXPECT_FALSE(MayOverlap({}, {}));
  EXPECT_FALSE(MayOverlap({4}, {1}));
  EXPECT_FALSE(MayOverlap({4}, {7}));
  EXPECT_FALSE(MayOverlap({1, 4}, {0, 1}));
  EXPECT_FALSE(MayOverlap({2, 3}, {1, 2}));        // transposed
  EXPECT_FALSE(MayOverlap({2, 3, 4}, {1, 8, 2}));  // permuted
  EXPECT_FALSE(MayOverlap({3, 3}, {20, 2}));       // sliced
  EXPECT_FALSE(MayOverlap({0, 5}, {0, 0}));        // empty
  EXPECT_FALSE(MayOverlap({2, 3}, {3, 2}));        // odd, but apart
  EXPECT_FALSE(MayOverlap({3}, {int64_t{1} << 60}));
}

TEST(StridedTest, RefusesOverlap) {
  EXPECT_TRUE(MayOverlap({2}, {0}));
  EXPECT_TRUE(MayOverlap({3, 4}, {0, 1}));
  EXPECT_TRUE(MayOverlap({3, 4}, {1, 1}));  // unfolded
  EXPECT_TRUE(MayOverlap({4, 4}, {3, 2}));
  EXPECT_TRUE(MayOverlap({2, 2, 2}, {3, 2, 1}));
}

TEST(StridedTest, NeverMissesAnOverlap) {
  std::mt19937 random(7);
  int apart = 0, refused_though_apart = 0;
  for (int round = 0; round < 20000; ++round) {
    const int rank = static_cast<int>(random() % 4 + 1);
    Dims sizes(rank), strides(rank);
    for (int i = 0; i < rank; ++i) {
      sizes[i] = random() % 5;
      strides[i] = random() % 14;
    }
    const bool overlaps = Overlaps(sizes, strides);
    const bool may = MayOverlap(sizes, strides);
    ASSERT_TRUE(may || !overlaps) << testing::PrintToString(sizes) << " "
                                  << testing::PrintToString(strides);
    if (rank <= 2) {
      ASSERT_EQ(may, overlaps) << testing::PrintToString(sizes) << " "
                               << testing::PrintToString(strides);
    }
    apart += !overlaps;
    refused_though_apart += may && !overlaps;
  }
  EXPECT_LT(refused_though_apart * 4, apart);
}

// All elements of a loop in its order, through rows in pieces.
template <int kOperands>
std::vector<std::vector<int64_t>> Walk(const StridedLoop<kOperands>& loop,
                                       int64_t rows_per_piece) {
  std::vector<std::vector<int64_t>> offsets(kOperands);
  for (int64_t begin = 0; begin < loop.num_rows(); begin += rows_per_piece) {
    const int64_t end = std::min(begin + rows_per_piece, loop.num_rows());
    loop.ForEachRow(begin, end, [&](const int64_t(&at)[kOperands]) {
      for (int64_t i = 0; i < loop.inner_size(); ++i) {
        for (int k = 0; k < kOperands; ++k) {
          offsets[k].push_back(at[k] + i * loop.inner_stride(k));
        }
      }
    });
  }
  return offsets;
}

TEST(StridedLoopTest, WalksInRowMajorOrder) {
  std::mt19937 random(11);
  for (int round = 0; round < 2000; ++round) {
    const int rank = static_cast<int>(random() % 5);
    Dims sizes(rank), a(rank), b(rank);
    for (int i = 0; i < rank; ++i) {
      sizes[i] = random() % 4;
      a[i] = random() % 20;
      b[i] = random() % 20;
    }
    if (random() % 2) {
      ASSERT_TRUE(ContiguousStrides(sizes.data(), rank, a.data()));
    }
    if (random() % 2) b = a;
    StridedLoop<2> loop(sizes.data(), rank, {a.data(), b.data()});
    if (random() % 2) loop.Coalesce();
    const auto walked = Walk(loop, random() % 3 + 1);
    ASSERT_EQ(walked[0], Offsets(sizes, a));
    ASSERT_EQ(walked[1], Offsets(sizes, b));
    for (size_t i = 0; i < walked[0].size(); ++i) {
      ASSERT_EQ(loop.OffsetOf(0, i), walked[0][i]);
      ASSERT_EQ(loop.OffsetOf(1, i), walked[1][i]);
    }
  }
}

TEST(StridedLoopTest, CoalescesWhatLiesTogether) {
  const Dims sizes = {2, 3, 1, 4}, y = {12, 4, 99, 1}, x = {24, 8, 0, 2};
  StridedLoop<2> loop(sizes.data(), 4, {y.data(), x.data()});
  loop.Coalesce();
  EXPECT_EQ(loop.rank(), 1);
  EXPECT_EQ(loop.inner_size(), 24);
  EXPECT_EQ(loop.inner_stride(0), 1);
  EXPECT_EQ(loop.inner_stride(1), 2);

  const Dims broadcast = {0, 0, 0, 0};
  StridedLoop<1> repeated(sizes.data(), 4, {broadcast.data()});
  repeated.Coalesce();
  EXPECT_EQ(repeated.rank(), 1);
  EXPECT_EQ(repeated.inner_stride(0), 0);
}

TEST(StridedLoopTest, SortsByTheFirstOperand) {
  const Dims sizes = {2, 3, 4}, y = {1, 8, 2}, x = {12, 4, 1};
  StridedLoop<2> loop(sizes.data(), 3, {y.data(), x.data()});
  loop.SortByFirst();
  EXPECT_EQ(loop.inner_stride(0), 1);
  EXPECT_EQ(loop.inner_size(), 2);
  EXPECT_EQ(loop.stride(0, 0), 8);
  EXPECT_EQ(loop.stride(1, 0), 4);
}

TEST(StridedLoopTest, HasNoRowsWhenEmpty) {
  for (const Dims& sizes : {Dims{0, 3}, Dims{3, 0}, Dims{0}}) {
    const Dims strides(sizes.size(), 1);
    StridedLoop<1> loop(sizes.data(), static_cast<int>(sizes.size()),
                        {strides.data()});
    EXPECT_EQ(loop.num_rows(), 0);
    loop.Coalesce();
    EXPECT_EQ(loop.num_rows(), 0);
  }
}

}  // namespace
}  // namespace tvarant::base
