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

TEST(SplitTest, CountingAgreesWithSplitting) {
  for (const v1::HeldOut& rule :
       {Every(2), Every(5), Last(3), Fraction(0.3, 9), v1::HeldOut()}) {
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
  EXPECT_FALSE(CountSplit({}, 0).ok());
}

TEST(SplitTest, NumbersOutOfRangeAreNamed) {
  EXPECT_THAT(CountSplit(Every(1), 5).status().message(),
              HasSubstr("held_out.every is 1"));
  EXPECT_THAT(CountSplit(Fraction(1.5, 0), 5).status().message(),
              HasSubstr("held_out.fraction is 1.5"));
  EXPECT_FALSE(CountSplit(Fraction(std::nan(""), 0), 5).ok());
}

}  // namespace
}  // namespace gpupool::engine
