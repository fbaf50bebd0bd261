#include "engine/data/label_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "gpupool/v1/dataset.pb.h"
#include "tests/engine/data/columns.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;

LabelFacts Facts(const std::vector<float>& labels) {
  return SummarizeLabels(ColumnOf({}, labels));
}

TEST(LabelFactsTest, ClassesAreWholeNumbersFromZero) {
  EXPECT_EQ(Facts({0, 4, 2}).class_count(), 5u);
  for (float label : {-1.0f, 0.5f, 1e9f}) {
    EXPECT_EQ(Facts({0, label}).class_count(), 0u) << label;
  }
}

TEST(LabelFactsTest, TheRangeIsThatOfAllNumbers) {
  const LabelFacts facts = Facts({3, -100, 7});
  EXPECT_TRUE(facts.whole) << "-100 is what PyTorch ignores by default";
  EXPECT_EQ(facts.minimum, -100);
  EXPECT_EQ(facts.maximum, 7);
  EXPECT_FALSE(Facts({1, 0.5}).whole);
  EXPECT_FALSE(Facts({1, -1e9}).whole) << "not exact as a class number";
}

TEST(LabelFactsTest, ManyNumbersAreReadInParts) {
  std::vector<float> labels(100000, 1);
  labels[99999] = -7.5;
  labels[50000] = 8;
  const LabelFacts facts = Facts(labels);
  EXPECT_FALSE(facts.whole);
  EXPECT_EQ(facts.minimum, -7.5);
  EXPECT_EQ(facts.maximum, 8);
}

TEST(LabelFactsTest, AMessageKeepsThem) {
  v1::Dataset dataset;
  ToProto(SummarizeLabels(ColumnOf({2, 3}, {-1, 2, 3, 4, 5, 6})),
          dataset.mutable_labels());
  const LabelFacts facts = LabelFactsOf(dataset);
  EXPECT_THAT(facts.shape, ElementsAre(2, 3));
  EXPECT_EQ(facts.numbers(), 6u);
  EXPECT_TRUE(facts.whole);
  EXPECT_EQ(facts.minimum, -1);
  EXPECT_EQ(facts.maximum, 6);
}

TEST(LabelFactsTest, DatasetsOfOlderServersTellTheirClasses) {
  v1::Dataset dataset;
  dataset.set_classes(4);
  EXPECT_EQ(LabelFactsOf(dataset).class_count(), 4u);
  dataset.set_classes(0);
  const LabelFacts unknown = LabelFactsOf(dataset);
  EXPECT_EQ(unknown.class_count(), 0u);
  EXPECT_TRUE(std::isnan(unknown.minimum)) << "nothing is known of the range";
}

}  // namespace
}  // namespace gpupool::engine
