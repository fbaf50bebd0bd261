#include "engine/data/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::HeldOut Every(uint64_t n) {
  v1::HeldOut rule;
  rule.set_every(n);
  return rule;
}
v1::HeldOut Last(uint64_t n) {
  v1::HeldOut rule;
  rule.set_last(n);
  return rule;
}
v1::HeldOut Fraction(double fraction, uint64_t seed) {
  v1::HeldOut rule;
  rule.mutable_fraction()->set_fraction(fraction);
  rule.mutable_fraction()->set_seed(seed);
  return rule;
}

v1::HeldOut Fold(uint64_t index, uint64_t of, uint64_t seed) {
  v1::HeldOut rule;
  rule.mutable_fold()->set_index(index);
  rule.mutable_fold()->set_of(of);
  rule.mutable_fold()->set_seed(seed);
  return rule;
}

TEST(SplitTest, EveryHoldsOutTheLastRowOfEachGroup) {
  EXPECT_THAT(SplitRows(Every(3), 7)->held_out, ElementsAre(2, 5));
  EXPECT_THAT(SplitRows(Every(3), 7)->training, ElementsAre(0, 1, 3, 4, 6));
}

TEST(SplitTest, LastHoldsOutTheEnd) {
  EXPECT_THAT(SplitRows(Last(2), 5)->held_out, ElementsAre(3, 4));
}

TEST(SplitTest, NoRuleTrainsOnEverything) {
  EXPECT_THAT(SplitRows({}, 3)->training, ElementsAre(0, 1, 2));
  EXPECT_THAT(SplitRows({}, 3)->held_out, IsEmpty());
}

TEST(SplitTest, FractionIsFixedByItsSeed) {
  auto split = SplitRows(Fraction(0.25, 1), 100);
  ASSERT_TRUE(split.ok());
  EXPECT_EQ(split->held_out.size(), 25u);
  EXPECT_EQ(split->held_out, SplitRows(Fraction(0.25, 1), 100)->held_out);
  EXPECT_NE(split->held_out, SplitRows(Fraction(0.25, 2), 100)->held_out);
  EXPECT_TRUE(std::is_sorted(split->held_out.begin(), split->held_out.end()));
}

TEST(SplitTest, FoldsOfOneSeedShareTheRowsOut) {
  std::vector<uint32_t> all;
  std::vector<size_t> sizes;
  for (uint64_t index = 0; index < 4; ++index) {
    const auto split = SplitRows(Fold(index, 4, 7), 10);
    ASSERT_TRUE(split.ok()) << split.status();
    EXPECT_TRUE(std::is_sorted(split->held_out.begin(), split->held_out.end()));
    EXPECT_EQ(split->training.size() + split->held_out.size(), 10u);
    sizes.push_back(split->held_out.size());
    all.insert(all.end(), split->held_out.begin(), split->held_out.end());
  }
  EXPECT_THAT(sizes, ElementsAre(3, 3, 2, 2));
  std::sort(all.begin(), all.end());
  EXPECT_THAT(all, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_NE(SplitRows(Fold(0, 2, 1), 100)->held_out,
            SplitRows(Fold(0, 2, 2), 100)->held_out);
}

TEST(SplitTest, CountingAgreesWithSplitting) {
  for (const v1::HeldOut& rule :
       {Every(2), Every(5), Last(3), Fraction(0.3, 9), Fold(1, 3, 2),
        Fold(4, 5, 0), Fold(4, UINT64_MAX, 0), v1::HeldOut()}) {
    for (uint64_t rows : {5u, 10u, 17u}) {
      auto sizes = CountSplit(rule, rows);
      auto split = SplitRows(rule, rows);
      ASSERT_TRUE(sizes.ok() && split.ok());
      EXPECT_EQ(sizes->training, split->training.size());
      EXPECT_EQ(sizes->held_out, split->held_out.size());
    }
  }
}

TEST(SplitTest, BothSidesKeepAtLeastOneRow) {
  EXPECT_THAT(CountSplit(Last(5), 5).status().message(),
              HasSubstr("keeps 5 of 5 rows"));
  EXPECT_FALSE(CountSplit(Last(0), 5).ok());
  EXPECT_FALSE(CountSplit(Every(9), 5).ok());
  EXPECT_FALSE(CountSplit(Fraction(0.01, 0), 5).ok());
  EXPECT_FALSE(CountSplit(Fraction(0.99, 0), 5).ok());
  EXPECT_FALSE(CountSplit(Fold(5, 6, 0), 5).ok());
  EXPECT_TRUE(CountSplit(Fold(4, 6, 0), 5).ok());
  EXPECT_FALSE(CountSplit({}, 0).ok());
}

TEST(SplitTest, NumbersOutOfRangeAreNamed) {
  EXPECT_THAT(CountSplit(Every(1), 5).status().message(),
              HasSubstr("held_out.every is 1"));
  EXPECT_THAT(CountSplit(Fraction(1.5, 0), 5).status().message(),
              HasSubstr("held_out.fraction is 1.5"));
  EXPECT_FALSE(CountSplit(Fraction(std::nan(""), 0), 5).ok());
  EXPECT_THAT(CountSplit(Fold(3, 3, 0), 5).status().message(),
              HasSubstr("held_out.fold is part 3 of 3"));
  EXPECT_FALSE(CountSplit(Fold(0, 1, 0), 5).ok());
}

}  // namespace
}  // namespace gpupool::engine
