#include "engine/plan/check_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

const std::vector<PlanItem> kItems = {
    {100, {0, 2}}, {64, {1, 3}}, {64, {3, 4}}};

std::string Refusal(const std::vector<PlanItem>& items,
                    const MemoryPlan& plan) {
  return std::string(CheckPlan(items, plan).message());
}

TEST(CheckPlanTest, AcceptsASoundPlan) {
  EXPECT_TRUE(CheckPlan(kItems, {{0, 128, 0}, 192}).ok());
}

TEST(CheckPlanTest, NamesItemsThatOverlapWhileBothLive) {
  EXPECT_THAT(Refusal(kItems, {{0, 64, 0}, 192}),
              HasSubstr("item 1 at [64, 128) alive in [1, 3] overlaps item 0"));
  EXPECT_THAT(Refusal(kItems, {{0, 128, 128}, 192}), HasSubstr("overlaps"));
  EXPECT_THAT(Refusal(kItems, {{64, 0, 64}, 192}), ::testing::IsEmpty());
}

TEST(CheckPlanTest, RefusesAnItemInsideAnother) {
  const std::vector<PlanItem> items = {{640, {0, 0}}, {64, {0, 0}}};
  EXPECT_THAT(Refusal(items, {{0, 128}, 640}), HasSubstr("overlaps"));
}

TEST(CheckPlanTest, RefusesWhatLeavesTheArena) {
  EXPECT_THAT(Refusal(kItems, {{0, 192, 0}, 192}),
              HasSubstr("leaves the arena of 192"));
  EXPECT_THAT(Refusal({{~uint64_t{0}, {0, 0}}}, {{64}, 192}),
              HasSubstr("leaves the arena"));
}

TEST(CheckPlanTest, RefusesUnalignedOffsetsAndBackwardLifetimes) {
  EXPECT_THAT(Refusal(kItems, {{0, 130, 0}, 256}), HasSubstr("not aligned"));
  EXPECT_THAT(Refusal({{64, {2, 1}}}, {{0}, 64}),
              HasSubstr("ends before it begins"));
  EXPECT_FALSE(CheckPlan(kItems, {{0}, 64}).ok());
}

// Compares the sweep with the definition, which looks at every pair.
bool AnyPairOverlaps(const std::vector<PlanItem>& items,
                     const MemoryPlan& plan) {
  for (size_t a = 0; a < items.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      if (items[a].lifetime.Overlaps(items[b].lifetime) &&
          plan.offsets[a] < plan.offsets[b] + items[b].bytes &&
          plan.offsets[b] < plan.offsets[a] + items[a].bytes) {
        return true;
      }
    }
  }
  return false;
}

TEST(CheckPlanTest, AgreesWithTheDefinitionOnRandomPlans) {
  const uint32_t seed = 20261121;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::vector<PlanItem> items;
    MemoryPlan plan;
    plan.arena_bytes = 64 * 40;
    for (int k = 0; k < 5; ++k) {
      const int first = static_cast<int>(random() % 8);
      items.push_back({1 + random() % 300,
                       {first, first + static_cast<int>(random() % 3)}});
      plan.offsets.push_back(64 * (random() % 30));
    }
    const bool bad = AnyPairOverlaps(items, plan);
    refused += bad ? 1 : 0;
    ASSERT_EQ(CheckPlan(items, plan).ok(), !bad);
  }
  EXPECT_GT(refused, 100);
  EXPECT_LT(refused, 1900);
}

}  // namespace
}  // namespace gpupool::engine
