#include "engine/base/philox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace gpupool::engine {
namespace {

// Known answers of the Random123 distribution (kat_vectors, philox4x32 10):
// counter words, key words, result words.
TEST(PhiloxBlockTest, MatchesThePublishedVectors) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(PhiloxBlock(0, 0, 0),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(PhiloxBlock(~0ull, ~0ull, ~0ull),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      PhiloxBlock(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88),
      (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, WordsAreTheBlocksInOrder) {
  Philox random(7, 9);
  for (uint64_t block = 0; block < 3; ++block) {
    for (uint32_t word : PhiloxBlock(7, 9, block)) {
      EXPECT_EQ(random.NextWord(), word);
    }
  }
  EXPECT_EQ(random.position(), 12u);
}

TEST(PhiloxTest, SeekContinuesAsIfNeverInterrupted) {
  Philox whole(3, 1);
  for (int i = 0; i < 13; ++i) whole.NextWord();
  Philox resumed(3, 1);
  resumed.Seek(13);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(whole.NextWord(), resumed.NextWord());
}

TEST(PhiloxTest, SeedsAndStreamsDiffer) {
  EXPECT_NE(PhiloxBlock(1, 0, 0), PhiloxBlock(2, 0, 0));
  EXPECT_NE(PhiloxBlock(1, 0, 0), PhiloxBlock(1, 1, 0));
  EXPECT_NE(PhiloxStreamId(PhiloxStream::kWeights, 5),
            PhiloxStreamId(PhiloxStream::kShuffle, 5));
  EXPECT_NE(PhiloxNameIndex("a.weight"), PhiloxNameIndex("a.bias"));
}

TEST(PhiloxTest, UniformNumbersStayInsideAndSpread) {
  Philox random(11);
  double sum = 0;
  for (int i = 0; i < 20000; ++i) {
    const float f = random.NextFloat();
    const double d = random.NextDouble();
    ASSERT_TRUE(f >= 0 && f < 1);
    ASSERT_TRUE(d >= 0 && d < 1);
    sum += f + d;
  }
  EXPECT_NEAR(sum / 40000, 0.5, 0.01);
  EXPECT_LT(PhiloxUniformFloat(0xffffffff), 1.0f);
}

TEST(PhiloxTest, BelowCoversItsRangeAndNoMore) {
  Philox random(1);
  std::vector<int> counts(7);
  for (int i = 0; i < 7000; ++i) ++counts[random.NextBelow(7)];
  for (int count : counts) EXPECT_NEAR(count, 1000, 150);
  EXPECT_EQ(random.NextBelow(1), 0u);
}

TEST(PhiloxPermutationTest, HoldsEachNumberOnceAndIsRepeatable) {
  for (uint64_t count : {0u, 1u, 2u, 1000u}) {
    auto order = PhiloxPermutation(4, 2, count);
    EXPECT_EQ(order, PhiloxPermutation(4, 2, count));
    std::sort(order.begin(), order.end());
    std::vector<uint32_t> expected(count);
    std::iota(expected.begin(), expected.end(), 0u);
    EXPECT_EQ(order, expected);
  }
  EXPECT_NE(PhiloxPermutation(4, 2, 1000), PhiloxPermutation(4, 3, 1000));
}

}  // namespace
}  // namespace gpupool::engine
