#include "engine/backends/portable/arithmetic/walk.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/backends/portable/launch/maker.h"

namespace gpupool::engine::portable {
namespace {

TEST(FastDivisorTest, DividesEveryIndexOf31Bits) {
  constexpr uint32_t kLast = (1u << 31) - 1;
  std::mt19937 random(1);
  std::vector<uint32_t> divisors = {1, 2, 3, 5, 7, 641, 65535, 65536, kLast};
  for (int i = 0; i < 200; ++i) divisors.push_back(random() % kLast + 1);
  for (const uint32_t divisor : divisors) {
    const FastDivisor fast = FastDivisor::Of(divisor);
    std::vector<uint32_t> numbers = {0, 1, divisor - 1, divisor, kLast};
    for (int i = 0; i < 200; ++i) {
      const uint32_t n = random() & kLast;
      numbers.push_back(n);
      numbers.push_back(n / divisor * divisor);  // an edge
    }
    for (const uint32_t n : numbers) {
      ASSERT_EQ(fast.Divide(n), n / divisor) << n << " / " << divisor;
    }
  }
}

// Compares the results of a walk with those of plain loops.
TEST(WalkTest, FindsWhatTheLoopsCount) {
  LoopNest loops;
  loops.sizes = {3, 4, 5};
  loops.strides = {{1, 100, 7}, {20, 5, 1}};
  const Walk<2> walk = WalkOf<2>(loops);
  Walk<2> wide = walk;
  wide.wide = true;
  int64_t index = 0;
  for (int64_t a = 0; a < 3; ++a) {
    for (int64_t b = 0; b < 4; ++b) {
      for (int64_t c = 0; c < 5; ++c, ++index) {
        int64_t at[2];
        walk.Find(index, at);
        EXPECT_EQ(at[0], a + 100 * b + 7 * c);
        EXPECT_EQ(at[1], index);
        EXPECT_EQ(walk.FindOne(index, 0), at[0]);
        EXPECT_EQ(wide.FindOne(index, 0), at[0]);
        wide.Find(index, at);
        EXPECT_EQ(at[0], a + 100 * b + 7 * c);
      }
    }
  }
}

TEST(WalkTest, IndicesBeyond31BitsAreDividedPlainly) {
  LoopNest loops;
  loops.sizes = {int64_t{1} << 20, int64_t{1} << 20};
  loops.strides = {{1, int64_t{1} << 30}};
  const Walk<1> walk = WalkOf<1>(loops);
  EXPECT_TRUE(walk.wide);
  const int64_t index = (int64_t{123456} << 20) + 654321;
  EXPECT_EQ(walk.FindOne(index, 0), 123456 + (int64_t{654321} << 30));
}

TEST(GridTest, SplitsIntoCoordinates) {
  const Grid grid = GridOf({3, 1, 4});
  int64_t at[kMaxLoops];
  grid.Split(11, at);
  EXPECT_EQ(at[0], 2);
  EXPECT_EQ(at[1], 0);
  EXPECT_EQ(at[2], 3);
}

}  // namespace
}  // namespace gpupool::engine::portable
