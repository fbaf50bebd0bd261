#include "engine/serving/stage_store.h"

#include <gtest/gtest.h>

namespace gpupool::engine {
namespace {

TEST(StageStoreTest, CountsAlignedBytesAndTheirPeak) {
  StageStore store;
  ASSERT_TRUE(store.Add("a", 100).ok());
  ASSERT_TRUE(store.Add("b", 1).ok());
  EXPECT_EQ(store.bytes(), 128u + 64u);
  store.Keep({"b", "c"});
  EXPECT_FALSE(store.Has("a"));
  ASSERT_TRUE(store.Has("b"));
  EXPECT_EQ(store.size("b"), 1u);
  EXPECT_EQ(store.bytes(), 64u);
  EXPECT_EQ(store.peak(), 192u);
}

TEST(StageStoreTest, ATensorReplacesOneOfItsName) {
  StageStore store;
  ASSERT_TRUE(store.Add("a", 640).ok());
  ASSERT_TRUE(store.Add("a", 64).ok());
  EXPECT_EQ(store.bytes(), 64u);
  EXPECT_EQ(store.peak(), 640u);
}

TEST(StageStoreTest, AnotherWayCountsOnFromHere) {
  StageStore store;
  ASSERT_TRUE(store.Add("a", 640).ok());
  ASSERT_TRUE(store.Add("b", 64).ok());
  store.Remove("a");
  StageStore way = store.CountOn();
  EXPECT_TRUE(way.Has("b"));
  EXPECT_EQ(way.peak(), 64u);
  way.Remove("b");
  EXPECT_TRUE(store.Has("b"));
}

}  // namespace
}  // namespace gpupool::engine
