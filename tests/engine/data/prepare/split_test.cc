#include "engine/data/prepare/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "engine/data/column.h"
#include "gpupool/v1/job.pb.h"
#include "tests/engine/data/columns.h"

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

TEST(SplitTest, WithoutLabelsARuleIsNotStratified) {
  v1::HeldOut marked = Fraction(0.25, 1);
  marked.mutable_fraction()->set_stratified(true);
  EXPECT_EQ(SplitRows(marked, 100)->held_out,
            SplitRows(Fraction(0.25, 1), 100)->held_out);
}

v1::HeldOut Stratified(v1::HeldOut rule) {
  if (rule.has_fold()) {
    rule.mutable_fold()->set_stratified(true);
  } else {
    rule.mutable_fraction()->set_stratified(true);
  }
  return rule;
}

// Returns labels of three classes with 7, 20 and 73 rows of every 100.
std::vector<float> UnevenLabels(size_t rows) {
  std::vector<float> labels;
  for (size_t i = 0; i < rows; ++i) {
    const size_t place = i * 37 % 100;
    labels.push_back(place < 7 ? 0 : place < 27 ? 1 : 2);
  }
  return labels;
}

std::map<float, int> CountsOf(const std::vector<uint32_t>& rows,
                              const std::vector<float>& labels) {
  std::map<float, int> counts;
  for (const uint32_t row : rows) ++counts[labels[row]];
  return counts;
}

TEST(SplitTest, AStratifiedFractionKeepsTheSharesOfTheClasses) {
  EXPECT_FALSE(IsStratified(Fraction(0.3, 1)));
  EXPECT_FALSE(IsStratified(Every(2)));
  const v1::HeldOut rule = Stratified(Fraction(0.3, 1));
  EXPECT_TRUE(IsStratified(rule));
  const std::vector<float> labels = UnevenLabels(100);
  const auto split = SplitByClass(rule, ColumnOf({}, labels));
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_EQ(split->held_out.size(), 30u);
  EXPECT_EQ(split->training.size(), 70u);
  EXPECT_TRUE(std::is_sorted(split->held_out.begin(), split->held_out.end()));
  std::map<float, int> counts = CountsOf(split->held_out, labels);
  EXPECT_TRUE(counts[0] == 2 || counts[0] == 3) << counts[0];  // 2.1
  EXPECT_EQ(counts[1], 6);
  EXPECT_TRUE(counts[2] == 21 || counts[2] == 22) << counts[2];  // 21.9
}

TEST(SplitTest, AStratifiedSplitIsFixedByItsSeed) {
  const Column labels = ColumnOf({}, UnevenLabels(100));
  const auto held_out = [&](v1::HeldOut rule) {
    return SplitByClass(Stratified(std::move(rule)), labels)->held_out;
  };
  EXPECT_EQ(held_out(Fraction(0.3, 1)), held_out(Fraction(0.3, 1)));
  EXPECT_NE(held_out(Fraction(0.3, 1)), held_out(Fraction(0.3, 2)));
  EXPECT_NE(held_out(Fold(0, 4, 1)), held_out(Fold(0, 4, 2)));
}

TEST(SplitTest, StratifiedFoldsShareTheRowsOutAndKeepTheShares) {
  const std::vector<float> labels = UnevenLabels(203);
  std::map<float, int> all;
  for (const float label : labels) ++all[label];
  std::vector<uint32_t> seen;
  for (uint64_t index = 0; index < 5; ++index) {
    const v1::HeldOut rule = Stratified(Fold(index, 5, 3));
    const auto split = SplitByClass(rule, ColumnOf({}, labels));
    ASSERT_TRUE(split.ok()) << split.status();
    EXPECT_EQ(split->held_out.size(), CountSplit(rule, 203)->held_out);
    for (const auto& [label, count] : CountsOf(split->held_out, labels)) {
      EXPECT_GE(count, all[label] / 5) << label;
      EXPECT_LE(count, (all[label] + 4) / 5) << label;
    }
    seen.insert(seen.end(), split->held_out.begin(), split->held_out.end());
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen.size(), 203u);
  EXPECT_EQ(std::unique(seen.begin(), seen.end()), seen.end());
}

TEST(SplitTest, CountingAgreesWithStratifiedSplitting) {
  for (const v1::HeldOut& rule :
       {Fraction(0.3, 9), Fraction(0.5, 0), Fraction(0.7, 1), Fold(1, 3, 2),
        Fold(4, UINT64_MAX, 0)}) {
    for (const size_t rows : {5u, 10u, 17u, 131u}) {
      const auto sizes = CountSplit(rule, rows);
      const auto split =
          SplitByClass(Stratified(rule), ColumnOf({}, UnevenLabels(rows)));
      ASSERT_TRUE(sizes.ok() && split.ok()) << split.status();
      EXPECT_EQ(sizes->training, split->training.size());
      EXPECT_EQ(sizes->held_out, split->held_out.size());
    }
  }
}

TEST(SplitTest, WhatIsNoClassIsNamed) {
  const v1::HeldOut rule = Stratified(Fraction(0.5, 1));
  EXPECT_THAT(
      SplitByClass(rule, ColumnOf({}, {0, 1, -2, 1})).status().message(),
      HasSubstr("row 2 of the dataset, counted from 0, has label -2"));
  EXPECT_THAT(SplitByClass(rule, ColumnOf({}, {0, 1 << 24})).status().message(),
              HasSubstr("has label 16777216"));
  EXPECT_THAT(SplitByClass(Stratified(Fraction(0.01, 1)), ColumnOf({}, {0, 1}))
                  .status()
                  .message(),
              HasSubstr("keeps 0 of 2 rows"));
  Column windows = ColumnOf({}, {0, 9, 1, 9, -2});
  windows.step = 2;
  windows.rows = 3;
  EXPECT_THAT(SplitByClass(rule, windows).status().message(),
              HasSubstr("window 2 of the dataset, counted from 0, has label "
                        "-2"));
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
