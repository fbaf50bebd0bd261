#include "server/control/jobs/batch_search.h"

#include <gtest/gtest.h>

#include <functional>

namespace gpupool::server {
namespace {

using Peak = std::function<std::optional<uint64_t>(uint64_t)>;

// Runs a search that begins with one plan. Returns the number of other plans.
int Search(BatchSearch& search, uint64_t first, const Peak& peak) {
  search.Add(first, peak(first));
  int plans = 0;
  while (const auto batch = search.Next()) {
    ++plans;
    search.Add(*batch, peak(*batch));
  }
  return plans;
}

TEST(BatchSearchTest, FindsTheLargestOfAnAffinePlanAndProvesIt) {
  const Peak peak = [](uint64_t batch) { return 1000 + 7 * batch; };
  BatchSearch search(
      {.limit_bytes = 1000 + 7 * 907, .fixed_bytes = 400, .most = 100'000});
  EXPECT_LE(Search(search, 32, peak), BatchSearch::kMostPlans);
  EXPECT_EQ(search.largest(), 907u);
  EXPECT_EQ(search.largest_peak(), 1000u + 7 * 907);
  EXPECT_EQ(search.too_large(), 908u);
}

TEST(BatchSearchTest, OneByteLessIsOneRowLess) {
  const Peak peak = [](uint64_t batch) { return 1000 + 7 * batch; };
  BatchSearch search(
      {.limit_bytes = 1000 + 7 * 907 - 1, .fixed_bytes = 400, .most = 100'000});
  Search(search, 32, peak);
  EXPECT_EQ(search.largest(), 906u);
  EXPECT_EQ(search.too_large(), 907u);
}

TEST(BatchSearchTest, SearchesBelowABatchThatDoesNotFit) {
  const Peak peak = [](uint64_t batch) { return 400 + 10 * batch; };
  BatchSearch search({.limit_bytes = 1400, .fixed_bytes = 400, .most = 5000});
  Search(search, 4096, peak);
  EXPECT_EQ(search.largest(), 100u);
  EXPECT_EQ(search.too_large(), 101u);
}

TEST(BatchSearchTest, FindsNoneWhenASingleRowDoesNotFit) {
  const Peak peak = [](uint64_t batch) { return 2000 + 10 * batch; };
  BatchSearch search({.limit_bytes = 1400, .fixed_bytes = 400, .most = 5000});
  Search(search, 2, peak);
  EXPECT_EQ(search.largest(), 0u);
  EXPECT_EQ(search.too_large(), 1u);
}

TEST(BatchSearchTest, AsksForMultiplesOfTheDevicesOnly) {
  const Peak peak = [](uint64_t batch) {
    EXPECT_EQ(batch % 3, 0u);
    return 1000 + 7 * batch;
  };
  BatchSearch search({.limit_bytes = 1000 + 7 * 100,
                      .fixed_bytes = 0,
                      .quantum = 3,
                      .most = 100'000});
  Search(search, 6, peak);
  EXPECT_EQ(search.largest(), 99u);
  EXPECT_EQ(search.too_large(), 102u);
}

TEST(BatchSearchTest, ADatasetThatFitsAsAWholeEndsTheSearch) {
  const Peak peak = [](uint64_t batch) { return 1000 + batch; };
  BatchSearch search(
      {.limit_bytes = uint64_t{1} << 40, .fixed_bytes = 0, .most = 1437});
  EXPECT_EQ(Search(search, 32, peak), 1);
  EXPECT_EQ(search.largest(), 1437u);
  EXPECT_FALSE(search.too_large().has_value());
}

TEST(BatchSearchTest, ARefusedSizeEndsTheSearchUpward) {
  uint64_t least_refused = 1000;
  const Peak peak = [&](uint64_t batch) -> std::optional<uint64_t> {
    EXPECT_LT(batch, least_refused);
    if (batch > 40) {
      least_refused = batch;
      return std::nullopt;
    }
    return 100 * batch;
  };
  BatchSearch search({.limit_bytes = 8000, .fixed_bytes = 0, .most = 1000});
  Search(search, 32, peak);
  EXPECT_GE(search.largest(), 32u);
  EXPECT_LE(search.largest(), 40u);
  EXPECT_LT(least_refused, 1000u);
  EXPECT_FALSE(search.too_large().has_value()) << "memory is no reason";
}

TEST(BatchSearchTest, ARefusedSizeHidesNoSmallerOneThatIsTooLarge) {
  const Peak peak = [](uint64_t batch) -> std::optional<uint64_t> {
    if (batch > 500) return std::nullopt;
    return 1000 + 7 * batch;
  };
  // A line through these fixed bytes and the first plan is too flat.
  BatchSearch search(
      {.limit_bytes = 1000 + 7 * 100, .fixed_bytes = 1200, .most = 100'000});
  EXPECT_LE(Search(search, 32, peak), BatchSearch::kMostPlans);
  EXPECT_EQ(search.largest(), 100u);
  EXPECT_EQ(search.too_large(), 101u);
}

TEST(BatchSearchTest, APlanThatDoesNotGrowDoublesTheBatch) {
  const Peak peak = [](uint64_t) { return 100; };
  BatchSearch search({.limit_bytes = 100, .fixed_bytes = 100, .most = 1 << 30});
  EXPECT_EQ(Search(search, 1, peak), BatchSearch::kMostPlans);
  EXPECT_EQ(search.largest(), 32u);
}

TEST(BatchSearchTest, PlansOfOtherSearchesCount) {
  BatchSearch search({.limit_bytes = 1000, .fixed_bytes = 0, .most = 5000});
  search.Add(10, 100);
  search.Add(100, 1000);
  search.Add(101, 1010);
  EXPECT_FALSE(search.Next().has_value());
  EXPECT_EQ(search.largest(), 100u);
}

}  // namespace
}  // namespace gpupool::server
