#include "engine/data/prepare/distributed_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kSeed = 9;

std::vector<uint32_t> Rows(uint32_t count) {
  std::vector<uint32_t> rows;
  for (uint32_t i = 0; i < count; ++i) rows.push_back(100 + i);
  return rows;
}

// Returns the sampler of a job on one device.
DistributedSampler One(uint64_t seed, uint32_t rows, uint32_t batch) {
  return *DistributedSampler::Create({.seed = seed, .batch_size = batch},
                                     Rows(rows));
}

std::vector<uint32_t> Take(DistributedSampler& sampler) {
  const auto batch = sampler.Next();
  return {batch.begin(), batch.end()};
}

std::vector<DistributedSampler> AllRanks(DistributedSamplerOptions options,
                                         uint32_t rows) {
  std::vector<DistributedSampler> ranks;
  for (options.rank = 0; options.rank < options.ranks; ++options.rank) {
    ranks.push_back(*DistributedSampler::Create(options, Rows(rows)));
  }
  return ranks;
}

TEST(DistributedSamplerTest, AnEpochVisitsNoRowTwiceAndDropsTheRest) {
  DistributedSampler sampler = One(1, 10, 3);
  EXPECT_EQ(sampler.batches_per_epoch(), 3u);
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::set<uint32_t> seen;
    for (int batch = 0; batch < 3; ++batch) {
      for (const uint32_t row : Take(sampler)) {
        EXPECT_TRUE(row >= 100 && row < 110);
        EXPECT_TRUE(seen.insert(row).second) << row;
      }
    }
    EXPECT_EQ(seen.size(), 9u);
  }
}

TEST(DistributedSamplerTest, LookingAheadTakesNothing) {
  DistributedSampler sampler = One(1, 10, 3);
  DistributedSampler other = One(1, 10, 3);
  for (uint64_t batch = 0; batch < 8; ++batch) {  // across two ends of epochs
    const auto seen = sampler.Peek();
    const std::vector<uint32_t> ahead(seen.begin(), seen.end());
    EXPECT_EQ(sampler.position(), batch);
    EXPECT_EQ(Take(sampler), ahead);
    EXPECT_EQ(Take(other), ahead);
  }
  sampler.Peek();
  sampler.Seek(1);
  other.Seek(1);
  EXPECT_EQ(Take(sampler), Take(other));
}

TEST(DistributedSamplerTest, SeedsHaveTheirOwnOrder) {
  DistributedSampler first = One(1, 64, 64), same = One(1, 64, 64),
                     other = One(2, 64, 64);
  const std::vector<uint32_t> order = Take(first);
  EXPECT_EQ(order, Take(same));
  EXPECT_NE(order, Take(other));
}

TEST(DistributedSamplerTest, TogetherTheRanksSeeTheBatchesOfOneDevice) {
  for (const uint32_t rows : {24u, 25u, 41u}) {
    for (const uint32_t ranks : {1u, 2u, 3u}) {
      DistributedSampler one = One(kSeed, rows, 4 * ranks);
      auto many =
          AllRanks({.seed = kSeed, .batch_size = 4, .ranks = ranks}, rows);
      EXPECT_EQ(many[0].batches_per_epoch(), one.batches_per_epoch());
      for (int step = 0; step < 20; ++step) {
        std::vector<uint32_t> together(4 * ranks);
        for (uint32_t r = 0; r < ranks; ++r) {
          const auto batch = many[r].Next();
          ASSERT_EQ(batch.size(), 4u);
          for (uint32_t i = 0; i < 4; ++i) together[i * ranks + r] = batch[i];
        }
        EXPECT_EQ(together, Take(one)) << rows << " rows, step " << step;
      }
    }
  }
}

TEST(DistributedSamplerTest, RowsThatDoNotDivideAreRepeatedFromTheStart) {
  // 10 rows on 4 ranks: 3 rows each; the first two entries occur twice.
  auto ranks = AllRanks({.seed = kSeed,
                         .batch_size = 3,
                         .ranks = 4,
                         .tail = Tail::kRepeatFromStart},
                        10);
  DistributedSampler whole = One(kSeed, 10, 10);
  const std::vector<uint32_t> order = Take(whole);
  std::map<uint32_t, int> seen;
  for (DistributedSampler& rank : ranks) {
    EXPECT_EQ(rank.batches_per_epoch(), 1u);
    for (const uint32_t row : Take(rank)) ++seen[row];
  }
  EXPECT_EQ(seen.size(), 10u);
  for (size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(seen[order[i]], i < 2 ? 2 : 1) << i;
  }
}

TEST(DistributedSamplerTest, FewerRowsThanRanksAreRepeatedAsOftenAsNeeded) {
  auto ranks = AllRanks({.seed = kSeed,
                         .batch_size = 1,
                         .ranks = 7,
                         .tail = Tail::kRepeatFromStart},
                        3);
  DistributedSampler whole = One(kSeed, 3, 3);
  const std::vector<uint32_t> order = Take(whole);
  for (size_t r = 0; r < ranks.size(); ++r) {
    EXPECT_EQ(Take(ranks[r])[0], order[r % 3]);
  }
}

TEST(DistributedSamplerTest, DroppedRowsAreSeenByNobody) {
  auto ranks = AllRanks({.seed = kSeed, .batch_size = 2, .ranks = 4}, 11);
  std::set<uint32_t> seen;
  for (DistributedSampler& rank : ranks) {
    for (const uint32_t row : Take(rank)) {
      EXPECT_TRUE(seen.insert(row).second) << row;
    }
  }
  EXPECT_EQ(seen.size(), 8u);
}

TEST(DistributedSamplerTest, EpochsHaveTheirOwnOrder) {
  auto ranks = AllRanks({.seed = kSeed, .batch_size = 32, .ranks = 2}, 64);
  const auto first = Take(ranks[0]);
  EXPECT_NE(first, Take(ranks[0]));
}

TEST(DistributedSamplerTest, WithoutShufflingEveryEpochHasTheOrderOfTheRows) {
  auto one = *DistributedSampler::Create(
      {.seed = kSeed, .batch_size = 3, .shuffle = false}, Rows(10));
  for (int epoch = 0; epoch < 3; ++epoch) {
    EXPECT_THAT(Take(one), ElementsAre(100, 101, 102));
    EXPECT_THAT(Take(one), ElementsAre(103, 104, 105));
    EXPECT_THAT(Take(one), ElementsAre(106, 107, 108));
  }
  one.Seek(4);
  EXPECT_THAT(Take(one), ElementsAre(103, 104, 105));
}

TEST(DistributedSamplerTest, WithoutShufflingRanksTakeEveryNthRow) {
  // As torch.utils.data.DistributedSampler(shuffle=False, drop_last=True).
  auto ranks = AllRanks({.batch_size = 2, .ranks = 3, .shuffle = false}, 13);
  EXPECT_THAT(Take(ranks[0]), ElementsAre(100, 103));
  EXPECT_THAT(Take(ranks[1]), ElementsAre(101, 104));
  EXPECT_THAT(Take(ranks[2]), ElementsAre(102, 105));
  EXPECT_THAT(Take(ranks[0]), ElementsAre(106, 109));
  EXPECT_THAT(Take(ranks[0]), ElementsAre(100, 103)) << "the next epoch";
}

TEST(DistributedSamplerTest, WithoutShufflingTheTailBeginsAtTheFirstRow) {
  auto ranks = AllRanks({.batch_size = 2,
                         .ranks = 3,
                         .tail = Tail::kRepeatFromStart,
                         .shuffle = false},
                        4);
  EXPECT_THAT(Take(ranks[0]), ElementsAre(100, 103));
  EXPECT_THAT(Take(ranks[1]), ElementsAre(101, 100));
  EXPECT_THAT(Take(ranks[2]), ElementsAre(102, 101));
}

TEST(DistributedSamplerTest, SeekContinuesAsIfNeverInterrupted) {
  const DistributedSamplerOptions options = {
      .seed = kSeed, .batch_size = 3, .rank = 1, .ranks = 2};
  auto whole = *DistributedSampler::Create(options, Rows(17));
  std::vector<std::vector<uint32_t>> batches;
  for (int i = 0; i < 20; ++i) batches.push_back(Take(whole));
  for (const uint64_t position : {0u, 1u, 2u, 11u}) {
    auto resumed = *DistributedSampler::Create(options, Rows(17));
    resumed.Seek(position);
    for (uint64_t i = position; i < 20; ++i) {
      ASSERT_EQ(Take(resumed), batches[i]) << position << " " << i;
    }
    EXPECT_EQ(resumed.position(), 20u);
  }
}

TEST(DistributedSamplerTest, AnEpochIsWholeWhenTheNumberOfRanksChangesInIt) {
  constexpr uint32_t kRows = 101, kBatch = 12;  // 8 steps
  DistributedSampler one = One(kSeed, kRows, kBatch);
  std::map<uint32_t, int> seen;
  uint64_t position = 0;
  const auto run = [&](uint32_t count, uint64_t steps) {
    std::vector<DistributedSampler> ranks = AllRanks(
        {.seed = kSeed, .batch_size = kBatch / count, .ranks = count}, kRows);
    for (DistributedSampler& rank : ranks) rank.Seek(position);
    for (uint64_t step = 0; step < steps; ++step, ++position) {
      std::multiset<uint32_t> rows;
      for (DistributedSampler& rank : ranks) {
        EXPECT_EQ(rank.batches_per_epoch(), one.batches_per_epoch());
        for (const uint32_t row : Take(rank)) rows.insert(row);
      }
      const std::vector<uint32_t> alone = Take(one);
      EXPECT_EQ(rows, std::multiset<uint32_t>(alone.begin(), alone.end()));
      for (const uint32_t row : rows) ++seen[row];
    }
  };
  run(4, 3);
  run(1, 1);
  run(6, 2);
  run(2, 2);
  EXPECT_EQ(seen.size(), 96u) << "all but those of no whole batch";
  for (const auto& [row, times] : seen) EXPECT_EQ(times, 1) << row;
}

TEST(DistributedSamplerTest, TheLastBatchOfAnEpochMayBeShorter) {
  const DistributedSamplerOptions options = {
      .seed = kSeed, .batch_size = 3, .keep_last = true};
  auto sampler = *DistributedSampler::Create(options, Rows(10));
  EXPECT_EQ(sampler.batches_per_epoch(), 4u);
  DistributedSampler dropping = One(kSeed, 10, 3);
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::set<uint32_t> seen;
    for (int batch = 0; batch < 4; ++batch) {
      const std::vector<uint32_t> rows = Take(sampler);
      EXPECT_EQ(rows.size(), batch < 3 ? 3u : 1u);
      if (batch < 3) {
        EXPECT_EQ(rows, Take(dropping)) << "the same order";
      }
      seen.insert(rows.begin(), rows.end());
    }
    EXPECT_EQ(seen.size(), 10u);
  }
  auto resumed = *DistributedSampler::Create(options, Rows(10));
  sampler.Seek(0);
  for (int batch = 0; batch < 7; ++batch) Take(sampler);
  resumed.Seek(7);
  EXPECT_EQ(resumed.Peek().size(), 1u);
  EXPECT_EQ(Take(resumed), Take(sampler));
  auto divided = *DistributedSampler::Create(
      {.batch_size = 5, .keep_last = true}, Rows(10));
  EXPECT_EQ(divided.batches_per_epoch(), 2u);
}

TEST(DistributedSamplerTest, RanksShareTheShorterLastBatch) {
  auto one = *DistributedSampler::Create(
      {.seed = kSeed, .batch_size = 6, .keep_last = true}, Rows(16));
  auto ranks = AllRanks(
      {.seed = kSeed, .batch_size = 3, .ranks = 2, .keep_last = true}, 16);
  for (int step = 0; step < 7; ++step) {
    std::vector<uint32_t> alone = Take(one), together;
    const auto first = ranks[0].Next(), second = ranks[1].Next();
    ASSERT_EQ(first.size(), second.size());
    for (size_t i = 0; i < first.size(); ++i) {
      together.push_back(first[i]);
      together.push_back(second[i]);
    }
    EXPECT_EQ(together, alone) << step;
  }
}

TEST(DistributedSamplerTest, RefusesWhatGivesNoBatch) {
  const auto refused = [](DistributedSamplerOptions options, uint32_t rows) {
    return DistributedSampler::Create(options, Rows(rows)).status();
  };
  EXPECT_TRUE(absl::IsInvalidArgument(refused({.rank = 2, .ranks = 2}, 9)));
  EXPECT_TRUE(absl::IsInvalidArgument(refused({.ranks = 0}, 9)));
  EXPECT_TRUE(absl::IsInvalidArgument(refused({.batch_size = 0}, 9)));
  EXPECT_TRUE(absl::IsInvalidArgument(refused({}, 0)));
  const absl::Status few = refused({.batch_size = 5, .ranks = 2}, 9);
  EXPECT_TRUE(absl::IsInvalidArgument(few));
  EXPECT_THAT(std::string(few.message()), HasSubstr("4 rows"));
  EXPECT_TRUE(
      refused({.batch_size = 5, .ranks = 2, .tail = Tail::kRepeatFromStart}, 9)
          .ok());
}

}  // namespace
}  // namespace gpupool::engine
