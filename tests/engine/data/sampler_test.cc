#include "engine/data/sampler.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace gpupool::engine {
namespace {

std::vector<uint32_t> Rows(uint32_t count) {
  std::vector<uint32_t> rows;
  for (uint32_t i = 0; i < count; ++i) rows.push_back(100 + i);
  return rows;
}

std::vector<uint32_t> Take(Sampler& sampler) {
  auto batch = sampler.Next();
  return {batch.begin(), batch.end()};
}

TEST(SamplerTest, AnEpochVisitsNoRowTwiceAndDropsTheRest) {
  Sampler sampler(1, Rows(10), 3);
  EXPECT_EQ(sampler.batches_per_epoch(), 3u);
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::set<uint32_t> seen;
    for (int batch = 0; batch < 3; ++batch) {
      for (uint32_t row : Take(sampler)) {
        EXPECT_TRUE(row >= 100 && row < 110);
        EXPECT_TRUE(seen.insert(row).second) << row;
      }
    }
    EXPECT_EQ(seen.size(), 9u);
  }
}

TEST(SamplerTest, EpochsAndSeedsHaveTheirOwnOrder) {
  Sampler sampler(1, Rows(64), 64);
  const auto first = Take(sampler);
  EXPECT_NE(first, Take(sampler));
  Sampler same(1, Rows(64), 64);
  EXPECT_EQ(first, Take(same));
  Sampler other(2, Rows(64), 64);
  EXPECT_NE(first, Take(other));
}

TEST(SamplerTest, SeekContinuesAsIfNeverInterrupted) {
  Sampler whole(5, Rows(17), 4);
  std::vector<std::vector<uint32_t>> batches;
  for (int i = 0; i < 20; ++i) batches.push_back(Take(whole));
  for (uint64_t position : {0u, 3u, 4u, 11u}) {
    Sampler resumed(5, Rows(17), 4);
    resumed.Seek(position);
    for (uint64_t i = position; i < 20; ++i) {
      ASSERT_EQ(Take(resumed), batches[i]) << position << " " << i;
    }
    EXPECT_EQ(resumed.position(), 20u);
  }
}

}  // namespace
}  // namespace gpupool::engine
