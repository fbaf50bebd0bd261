#include "engine/plan/memory_plan.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/base/align.h"
#include "engine/plan/check_plan.h"

namespace gpupool::engine {
namespace {

TEST(MemoryPlanTest, NothingNeedsNothing) {
  EXPECT_EQ(PlanMemory({}).arena_bytes, 0u);
  EXPECT_EQ(FindPeak({}).bytes, 0u);
}

TEST(MemoryPlanTest, ItemsThatNeverMeetShareBytes) {
  const std::vector<PlanItem> items = {
      {1000, {0, 1}}, {1000, {2, 3}}, {500, {4, 4}}};
  const MemoryPlan plan = PlanMemory(items);
  EXPECT_EQ(plan.arena_bytes, 1024u);
  EXPECT_EQ(plan.offsets, (std::vector<uint64_t>{0, 0, 0}));
}

TEST(MemoryPlanTest, ItemsThatMeetForOnePositionDoNotShare) {
  const std::vector<PlanItem> items = {{64, {0, 2}}, {64, {2, 3}}};
  EXPECT_EQ(PlanMemory(items).arena_bytes, 128u);
}

TEST(MemoryPlanTest, FillsTheGapThatFits) {
  const std::vector<PlanItem> items = {
      {640, {0, 9}}, {320, {0, 3}}, {256, {0, 9}}, {128, {5, 9}}};
  const MemoryPlan plan = PlanMemory(items);
  EXPECT_EQ(plan.offsets[3], 640u);
  EXPECT_EQ(plan.arena_bytes, 640u + 320u + 256u);
}

TEST(MemoryPlanTest, EmptyItemsTakeNoRoom) {
  const std::vector<PlanItem> items = {{0, {0, 9}}, {64, {0, 9}}};
  EXPECT_EQ(PlanMemory(items).arena_bytes, 64u);
}

TEST(MemoryPlanTest, PeakNamesTheFullestPosition) {
  const std::vector<PlanItem> items = {
      {100, {0, 4}}, {200, {3, 6}}, {300, {5, 5}}};
  const PeakMoment peak = FindPeak(items);
  EXPECT_EQ(peak.position, 5);
  EXPECT_EQ(peak.bytes, 256u + 320u);
}

// Returns a forward pass followed by a backward pass that reads it in reverse.
std::vector<PlanItem> RandomItems(std::mt19937& random) {
  std::vector<PlanItem> items;
  const int positions = 2 + static_cast<int>(random() % 100);
  const int count = static_cast<int>(random() % 150);
  for (int i = 0; i < count; ++i) {
    const int first = static_cast<int>(random() % positions);
    const bool saved = random() % 2 == 0;
    const int last =
        saved ? std::max(first, positions - first) : first + random() % 3;
    items.push_back({random() % 8 == 0 ? 0 : random() % 100000, {first, last}});
  }
  return items;
}

TEST(MemoryPlanTest, RandomPlansAreProvedAndNearTheLowerBound) {
  const uint32_t seed = 20261121;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  uint64_t planned = 0, needed = 0;
  for (int i = 0; i < 200; ++i) {
    const std::vector<PlanItem> items = RandomItems(random);
    const MemoryPlan plan = PlanMemory(items);
    const absl::Status proof = CheckPlan(items, plan);
    ASSERT_TRUE(proof.ok()) << proof;
    ASSERT_EQ(plan.arena_bytes % kAlignmentBytes, 0u);
    ASSERT_GE(plan.arena_bytes, FindPeak(items).bytes);
    planned += plan.arena_bytes;
    needed += FindPeak(items).bytes;
  }
  EXPECT_LT(static_cast<double>(planned), 1.02 * static_cast<double>(needed));
}

TEST(MemoryPlanTest, TriesOtherOrdersWhereTheLargestFirstWastes) {
  // Largest first puts 320 at 0 and 256 behind it. Then the 192, which is live
  // together with both smaller items, finds no gap.
  const std::vector<PlanItem> items = {{320, {0, 1}}, {256, {1, 2}},
                                       {192, {2, 3}}, {192, {3, 4}},
                                       {320, {4, 5}}, {64, {0, 5}}};
  const MemoryPlan plan = PlanMemory(items);
  ASSERT_TRUE(CheckPlan(items, plan).ok());
  EXPECT_EQ(plan.arena_bytes, FindPeak(items).bytes);
}

TEST(MemoryPlanTest, SendsItemsToTheTopWhereScratchFillsTheBottom) {
  // ResNet-18 at batch 8: a large scratch at some positions and, between them,
  // activations that only fit if one of them is at the other end. In units of 4
  // KiB.
  constexpr uint64_t kUnit = 4096;
  std::vector<PlanItem> items = {
      {6272, {21, 22}}, {5068, {23, 23}}, {5068, {24, 24}}, {5068, {25, 25}},
      {5068, {26, 26}}, {7208, {29, 29}}, {7208, {30, 30}}, {7208, {31, 31}},
      {6928, {34, 34}}, {6928, {35, 35}}, {6928, {36, 36}}, {1568, {22, 28}},
      {1568, {23, 24}}, {1568, {25, 26}}, {1176, {20, 21}}, {784, {27, 29}},
      {784, {28, 33}},  {784, {30, 31}},  {392, {32, 34}},  {392, {33, 38}},
      {392, {35, 36}},  {196, {37, 39}},  {196, {38, 42}},  {196, {40, 41}}};
  for (PlanItem& item : items) item.bytes *= kUnit;
  const MemoryPlan plan = PlanMemory(items);
  ASSERT_TRUE(CheckPlan(items, plan).ok());
  EXPECT_EQ(plan.arena_bytes, FindPeak(items).bytes);
}

TEST(MemoryPlanTest, ManyItemsTakeModestTime) {
  std::mt19937 random(1);
  std::vector<PlanItem> items;
  for (int i = 0; i < 20000; ++i) {
    const int last = i + static_cast<int>(random() % 50);
    items.push_back({64 + random() % 100000, {i, last}});
  }
  const MemoryPlan plan = PlanMemory(items);
  EXPECT_TRUE(CheckPlan(items, plan).ok());
  EXPECT_EQ(plan.offsets, PlanMemory(items).offsets);
}

}  // namespace
}  // namespace gpupool::engine
