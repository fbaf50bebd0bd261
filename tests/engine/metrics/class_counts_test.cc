#include "engine/metrics/class_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace gpupool::engine {
namespace {

using Form = ClassCounts::Form;
using ::testing::ElementsAre;

ClassCounts Counted(const std::vector<int>& labels,
                    const std::vector<int>& answers, int classes) {
  ClassCounts counts(classes, Form::kOneOfMany, true);
  for (size_t i = 0; i < labels.size(); ++i) counts.Add(labels[i], answers[i]);
  return counts;
}

// The expected numbers are those of scikit-learn 1.2.1: precision_score,
// recall_score, f1_score and jaccard_score with average="macro", or their
// default for two classes, and confusion_matrix.
TEST(ClassCountsTest, ManyClassesHaveTheMeanOfTheClasses) {
  const ClassCounts counts = Counted({0, 1, 2, 2, 1, 0, 3, 3, 1, 1},
                                     {0, 2, 2, 2, 1, 0, 3, 1, 1, 3}, 4);
  EXPECT_DOUBLE_EQ(counts.Precision(), 0.7083333333333333);
  EXPECT_DOUBLE_EQ(counts.Recall(), 0.75);
  EXPECT_DOUBLE_EQ(counts.F1(), 0.717857142857143);
  EXPECT_DOUBLE_EQ(counts.IntersectionOverUnion(), 0.6);
  EXPECT_THAT(counts.confusion(),
              ElementsAre(2, 0, 0, 0, 0, 2, 1, 1, 0, 0, 2, 0, 0, 1, 0, 1));
}

TEST(ClassCountsTest, ClassesThatNoRowHasDoNotCount) {
  const ClassCounts counts = Counted({0, 1, 2, 2, 1, 0, 3, 3, 1, 1},
                                     {0, 2, 2, 2, 1, 0, 3, 1, 1, 3}, 9);
  EXPECT_DOUBLE_EQ(counts.Precision(), 0.7083333333333333);
  EXPECT_DOUBLE_EQ(counts.IntersectionOverUnion(), 0.6);
  // Class 1 is no label, but an answer.
  EXPECT_DOUBLE_EQ(Counted({0, 0, 2, 2}, {0, 1, 2, 2}, 3).Precision(), 2. / 3);
}

TEST(ClassCountsTest, OfTwoClassesTheSecondCounts) {
  const ClassCounts counts =
      Counted({0, 1, 1, 0, 1, 0, 0, 1}, {0, 1, 0, 1, 1, 0, 1, 1}, 2);
  EXPECT_DOUBLE_EQ(counts.Precision(), 0.6);
  EXPECT_DOUBLE_EQ(counts.Recall(), 0.75);
  EXPECT_DOUBLE_EQ(counts.F1(), 2. / 3);
  EXPECT_DOUBLE_EQ(counts.IntersectionOverUnion(), 0.45);
}

TEST(ClassCountsTest, YesOrNoAnswersHaveTheMeanOfAllAnswers) {
  const int labels[] = {1, 0, 1, 0, 1, 0, 1, 1, 0, 0, 0, 0};
  const int answers[] = {1, 0, 1, 1, 1, 0, 1, 0, 0, 0, 0, 0};
  ClassCounts counts(3, Form::kYesOrNo, false);
  for (int i = 0; i < 12; ++i) {
    counts.AddAnswer(i % 3, labels[i] == 1, answers[i] == 1);
  }
  EXPECT_DOUBLE_EQ(counts.Precision(), 0.8888888888888888);
  EXPECT_DOUBLE_EQ(counts.Recall(), 0.8333333333333334);
  EXPECT_DOUBLE_EQ(counts.F1(), 0.8222222222222223);
  EXPECT_DOUBLE_EQ(counts.IntersectionOverUnion(), 0.7222222222222222);
  EXPECT_TRUE(counts.confusion().empty());
}

TEST(ClassCountsTest, WithoutRowsEverythingIsZero) {
  const ClassCounts counts(3, Form::kOneOfMany, false);
  EXPECT_EQ(counts.Precision(), 0);
  EXPECT_EQ(counts.Recall(), 0);
  EXPECT_EQ(counts.F1(), 0);
  EXPECT_EQ(counts.IntersectionOverUnion(), 0);
  EXPECT_EQ(ClassCounts(2, Form::kOneOfMany, false).Precision(), 0);
}

}  // namespace
}  // namespace gpupool::engine
