#include "engine/serving/program_cache.h"

#include "gtest/gtest.h"

namespace gpupool::engine {
namespace {

ProgramKey Key(int64_t batch, std::vector<int64_t> sizes = {},
               std::string bound = "") {
  return {.batch = batch, .sizes = std::move(sizes), .bound = std::move(bound)};
}

TEST(ProgramCacheTest, FindsByBatchSizesAndNumbers) {
  ProgramCache cache(8);
  cache.Add({.key = Key(1, {4}, "x")});
  EXPECT_NE(cache.Find(Key(1, {4}, "x")), nullptr);
  EXPECT_EQ(cache.Find(Key(2, {4}, "x")), nullptr);
  EXPECT_EQ(cache.Find(Key(1, {5}, "x")), nullptr);
  EXPECT_EQ(cache.Find(Key(1, {4}, "y")), nullptr);
}

TEST(ProgramCacheTest, TheOneNotUsedForLongestGoesFirst) {
  ProgramCache cache(2);
  cache.Add({.key = Key(1)});
  cache.Add({.key = Key(2)});
  EXPECT_NE(cache.Find(Key(1)), nullptr);
  cache.Add({.key = Key(3)});
  EXPECT_EQ(cache.Find(Key(2)), nullptr);
  EXPECT_NE(cache.Find(Key(1)), nullptr);
  EXPECT_NE(cache.Find(Key(3)), nullptr);
  EXPECT_EQ(cache.size(), 2u);
  EXPECT_EQ(cache.evictions(), 1u);
}

TEST(ProgramCacheTest, MakeRoomLeavesOnePlace) {
  ProgramCache cache(2);
  cache.MakeRoom();
  EXPECT_EQ(cache.evictions(), 0u);
  cache.Add({.key = Key(1)});
  cache.Add({.key = Key(2)});
  cache.MakeRoom();
  EXPECT_EQ(cache.size(), 1u);
  EXPECT_TRUE(cache.RemoveOldest());
  EXPECT_FALSE(cache.RemoveOldest());
}

}  // namespace
}  // namespace gpupool::engine
