#include "engine/memory/free_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <vector>

namespace gpupool::engine {
namespace {

class FreeIndexTest : public ::testing::Test {
 protected:
  Block* Add(uint64_t bytes) {
    Block* const block = &blocks_.emplace_back();
    block->bytes = bytes;
    index_.Insert(block);
    return block;
  }

  std::deque<Block> blocks_;
  FreeIndex index_;
};

TEST_F(FreeIndexTest, EmptyIndexHasNothing) {
  EXPECT_TRUE(index_.empty());
  EXPECT_EQ(index_.Find(256), nullptr);
  EXPECT_EQ(index_.largest_bytes(), 0u);
}

TEST_F(FreeIndexTest, TakesAnExactBlockBeforeALargerOne) {
  Add(6 << 20);
  Block* const exact = Add((5 << 20) + 256);
  Add(5 << 20);
  EXPECT_EQ(index_.Find((5 << 20) + 256), exact);
}

TEST_F(FreeIndexTest, FindsALargerBlockOfTheSameClassBehindSmallerOnes) {
  // Sizes that differ by less than a thirty-second are in one class.
  Block* const fits = Add((64 << 20) + 4096);
  for (int i = 0; i < 100; ++i) Add(64 << 20);
  EXPECT_EQ(index_.Find((64 << 20) + 256), fits);
}

TEST_F(FreeIndexTest, BlockKnowsItsHome) {
  Block* const block = Add(512);
  EXPECT_EQ(block->home, &index_);
  index_.Remove(block);
  EXPECT_EQ(block->home, nullptr);
  EXPECT_TRUE(index_.empty());
}

TEST_F(FreeIndexTest, HoldsTheSmallestAndTheLargestSize) {
  Block* const small = Add(kBlockUnitBytes);
  Block* const large = Add(~uint64_t{0} - (kBlockUnitBytes - 1));
  EXPECT_EQ(index_.Find(kBlockUnitBytes), small);
  EXPECT_EQ(index_.Find(2 * kBlockUnitBytes), large);
  EXPECT_EQ(index_.largest_bytes(), large->bytes);
}

TEST_F(FreeIndexTest, RandomTrafficAgreesWithASortedList) {
  const uint32_t seed = 4711;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  std::vector<Block*> inside;
  for (int i = 0; i < 20000; ++i) {
    const uint64_t bytes = kBlockUnitBytes << (random() % 20);
    const uint64_t wanted = bytes + kBlockUnitBytes * (random() % 64);
    if (random() % 2 == 0) {
      inside.push_back(Add(wanted));
    } else if (!inside.empty() && random() % 2 == 0) {
      std::swap(inside[random() % inside.size()], inside.back());
      index_.Remove(inside.back());
      inside.pop_back();
    }
    // `sure` is the smallest block of a class above the request's.
    const uint64_t above = wanted + wanted / 32 + kBlockUnitBytes;
    uint64_t best = ~uint64_t{0}, sure = ~uint64_t{0}, largest = 0;
    for (const Block* block : inside) {
      largest = std::max(largest, block->bytes);
      if (block->bytes >= wanted) best = std::min(best, block->bytes);
      if (block->bytes >= above) sure = std::min(sure, block->bytes);
    }
    const Block* const found = index_.Find(wanted);
    ASSERT_EQ(found != nullptr, best != ~uint64_t{0}) << "round " << i;
    if (found != nullptr) {
      ASSERT_GE(found->bytes, wanted);
      if (sure != ~uint64_t{0}) {
        ASSERT_LE(found->bytes, sure + sure / 32 + kBlockUnitBytes);
      }
    }
    ASSERT_EQ(index_.largest_bytes(), largest);
    if (inside.size() > 200) {
      index_.Remove(inside.back());
      inside.pop_back();
    }
  }
}

}  // namespace
}  // namespace gpupool::engine
