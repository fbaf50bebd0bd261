#include "engine/collective/gradient_buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <limits>
#include <vector>

#include "engine/base/philox.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kMiB = uint64_t{1} << 20;

// Returns count-1, ..., 1, 0: the order in which backward reaches parameters.
std::vector<int> ReverseOrder(int count) {
  std::vector<int> order;
  for (int i = count - 1; i >= 0; --i) order.push_back(i);
  return order;
}

TEST(GradientBucketsTest, FirstOneMebibyteThenTwentyFiveFromTheBack) {
  // Parameters of 1 MiB each: the last alone, then 25 together, then the rest.
  const std::vector<uint64_t> elements(30, kMiB / 4);
  const auto plan = GradientBuckets::Plan(elements, ReverseOrder(30));
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->buckets().size(), 3u);
  EXPECT_THAT(plan->buckets()[0].parameters, ElementsAre(29));
  EXPECT_EQ(plan->buckets()[1].parameters.size(), 25u);
  EXPECT_EQ(plan->buckets()[1].parameters.front(), 28);
  EXPECT_THAT(plan->buckets()[2].parameters, ElementsAre(3, 2, 1, 0));
  EXPECT_EQ(plan->elements(), 30 * kMiB / 4);
}

TEST(GradientBucketsTest, ABucketClosesOnceItHoldsItsSize) {
  // Bytes: 8, 400, 4, 4, 4.
  const std::vector<uint64_t> elements = {2, 100, 1, 1, 1};
  const auto plan = GradientBuckets::Plan(
      elements, ReverseOrder(5), {.first_bytes = 8, .other_bytes = 16});
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->buckets().size(), 3u);
  EXPECT_THAT(plan->buckets()[0].parameters, ElementsAre(4, 3));
  EXPECT_THAT(plan->buckets()[1].parameters, ElementsAre(2, 1));
  EXPECT_THAT(plan->buckets()[2].parameters, ElementsAre(0));
  EXPECT_EQ(plan->slots()[1].bucket, 1);
  EXPECT_EQ(plan->slots()[1].offset, 1u);
  EXPECT_EQ(plan->buckets()[1].begin, 2u);
  EXPECT_EQ(plan->buckets()[2].begin, 103u);
}

TEST(GradientBucketsTest, SlotsTileTheFlatBufferForAnyOrder) {
  const uint64_t seed = 20;
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  Philox random(seed);
  for (uint64_t round = 0; round < 50; ++round) {
    const uint64_t count = 1 + random.NextBelow(40);
    std::vector<uint64_t> elements;
    for (uint64_t i = 0; i < count; ++i) {
      elements.push_back(1 + random.NextBelow(500));
    }
    std::vector<int> order;
    for (uint32_t i : PhiloxPermutation(seed, round, count)) {
      order.push_back(static_cast<int>(i));
    }
    const auto plan =
        GradientBuckets::Plan(elements, order,
                              {.first_bytes = 1 + random.NextBelow(500),
                               .other_bytes = 1 + random.NextBelow(5000)});
    ASSERT_TRUE(plan.ok()) << plan.status();
    uint64_t end = 0;
    std::vector<int> in_order;
    for (const Bucket& bucket : plan->buckets()) {
      EXPECT_EQ(bucket.begin, end);
      uint64_t filled = 0;
      for (const int parameter : bucket.parameters) {
        const BucketSlot& slot = plan->slots()[static_cast<size_t>(parameter)];
        EXPECT_EQ(&plan->buckets()[static_cast<size_t>(slot.bucket)], &bucket);
        EXPECT_EQ(slot.offset, filled);
        EXPECT_EQ(slot.elements, elements[static_cast<size_t>(parameter)]);
        filled += slot.elements;
        in_order.push_back(parameter);
      }
      EXPECT_EQ(bucket.elements, filled);
      end += filled;
    }
    EXPECT_EQ(end, plan->elements());
    EXPECT_EQ(in_order, order);
  }
}

TEST(GradientBucketsTest, RefusesWhatIsNoPlan) {
  const auto refused = [](std::vector<uint64_t> elements,
                          std::vector<int> order, BucketSizes sizes = {}) {
    return absl::IsInvalidArgument(
        GradientBuckets::Plan(elements, order, sizes).status());
  };
  EXPECT_TRUE(refused({1, 1}, {0, 0}));
  EXPECT_TRUE(refused({1, 1}, {0}));
  EXPECT_TRUE(refused({1, 1}, {0, 2}));
  EXPECT_TRUE(refused({1, 1}, {0, -1}));
  EXPECT_TRUE(refused({1, 0}, {0, 1}));
  EXPECT_TRUE(refused({1, 1}, {0, 1}, {.first_bytes = 0}));
  const uint64_t huge = std::numeric_limits<uint64_t>::max() / 5;
  EXPECT_TRUE(refused({huge}, {0}));
  EXPECT_TRUE(refused({huge / 2, huge / 2, huge / 2}, {0, 1, 2}));
  EXPECT_TRUE(GradientBuckets::Plan({}, {})->buckets().empty());
}

}  // namespace
}  // namespace gpupool::engine
