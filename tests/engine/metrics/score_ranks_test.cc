#include "engine/metrics/score_ranks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace gpupool::engine {
namespace {

// The expected numbers are those of scikit-learn 1.2.1: roc_auc_score, for
// several classes with multi_class="ovr" of their probabilities.
TEST(ScoreRanksTest, EqualScoresCountHalf) {
  const ScoreTable table = {
      .columns = 1,
      .scores = {0.1f, 0.8f, 0.4f, 0.4f, 0.9f, 0.05f, 0.7f, 0.7f},
      .belongs = {0, 1, 1, 0, 1, 0, 0, 1}};
  EXPECT_DOUBLE_EQ(*AreaUnderCurve(table), 0.875);
}

TEST(ScoreRanksTest, ManyClassesHaveTheMeanOfEachAgainstTheOthers) {
  const float scores[][3] = {{2, 1, 0}, {0.5, 1.5, 0.2}, {0, 0.1, 0.3},
                             {1, 1, 1}, {3, 0.2, 0.1},   {0.2, 0.4, 0.1}};
  const int64_t labels[] = {0, 1, 2, 1, 0, 2};
  ScoreTable table{.columns = ScoreColumns(3)};
  for (int i = 0; i < 6; ++i) AddClassScores(scores[i], labels[i], table);
  EXPECT_EQ(table.rows(), 6);
  EXPECT_DOUBLE_EQ(*AreaUnderCurve(table), 0.9166666666666666);
}

TEST(ScoreRanksTest, TwoClassesAreOneColumn) {
  ScoreTable table{.columns = ScoreColumns(2)};
  const float scores[][2] = {{0, 1}, {1, 0}, {5, 5.5}};
  const int64_t labels[] = {1, 0, 0};
  for (int i = 0; i < 3; ++i) AddClassScores(scores[i], labels[i], table);
  EXPECT_EQ(table.scores.size(), 3u);
  EXPECT_DOUBLE_EQ(*AreaUnderCurve(table), 1);
}

// Probabilities of 1 - 1e-20 and 1 - 1e-30 are both 1.
TEST(ScoreRanksTest, CertainAnswersStayApart) {
  ScoreTable table{.columns = 3};
  for (const auto& [scores, label] :
       {std::pair(std::vector<float>{70, 0, 0}, 0),
        std::pair(std::vector<float>{50, 0, 0}, 1)}) {
    AddClassScores(scores, label, table);
  }
  EXPECT_GT(table.scores[0], table.scores[3]);
}

TEST(ScoreRanksTest, AColumnWithoutBothKindsOfRowsDoesNotCount) {
  ScoreTable table = {.columns = 2,
                      .scores = {1, 1, 2, 2, 3, 3},
                      .belongs = {0, 1, 1, 1, 1, 1}};
  EXPECT_DOUBLE_EQ(*AreaUnderCurve(table), 1);
  table.belongs = {1, 1, 1, 1, 1, 1};
  EXPECT_EQ(AreaUnderCurve(table), std::nullopt);
  EXPECT_EQ(AreaUnderCurve(ScoreTable()), std::nullopt);
}

TEST(ScoreRanksTest, AScoreThatIsNoNumberIsTheLowest) {
  const ScoreTable table = {
      .columns = 1,
      .scores = {std::nanf(""), -1e30f, std::numeric_limits<float>::infinity()},
      .belongs = {0, 1, 1}};
  EXPECT_DOUBLE_EQ(*AreaUnderCurve(table), 1);
}

}  // namespace
}  // namespace gpupool::engine
