#include "client/cli/output/evaluation_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpupool::client {
namespace {

v1::ConfusionMatrix Matrix(uint32_t classes) {
  v1::ConfusionMatrix matrix;
  matrix.set_classes(classes);
  for (uint32_t i = 0; i < classes * classes; ++i) matrix.add_counts(i * 40);
  return matrix;
}

TEST(EvaluationTextTest, MetricsFollowInTheOrderOfTheirNames) {
  v1::Evaluation evaluation;
  evaluation.set_loss(0.05123);
  evaluation.set_rows(360);
  EXPECT_EQ(EvaluationText(evaluation), "loss 0.05123 (360 rows)");
  evaluation.set_accuracy(0.98611);
  evaluation.set_top_k_accuracy(1);
  (*evaluation.mutable_metrics())["recall"] = 1;
  (*evaluation.mutable_metrics())["f1"] = 0.97123;
  EXPECT_EQ(EvaluationText(evaluation),
            "loss 0.05123, accuracy 98.61%, top-k 100.00%, f1 0.9712, recall 1 "
            "(360 rows)");
}

TEST(EvaluationTextTest, AZeroIsAResult) {
  v1::Evaluation evaluation;
  evaluation.set_accuracy(0);
  evaluation.set_top_k_accuracy(0);
  (*evaluation.mutable_metrics())["f1"] = 0;
  evaluation.set_rows(3);
  EXPECT_EQ(EvaluationText(evaluation),
            "loss 0, accuracy 0.00%, top-k 0.00%, f1 0 (3 rows)");
}

TEST(ConfusionTextTest, EachLabelHasARow) {
  EXPECT_EQ(ConfusionText(Matrix(2), "  "),
            "  confusion matrix: a row for each label, a column for each "
            "prediction\n"
            "         0   1\n"
            "    0:   0  40\n"
            "    1:  80 120\n");
  EXPECT_EQ(ConfusionText(v1::ConfusionMatrix(), ""), "");
}

TEST(ConfusionTextTest, ManyClassesAreNotShown) {
  EXPECT_THAT(ConfusionText(Matrix(20), ""), ::testing::HasSubstr("19:"));
  EXPECT_EQ(ConfusionText(Matrix(21), ""),
            "confusion matrix of 21 classes: see `gpupool get JOB -o json`\n");
}

}  // namespace
}  // namespace gpupool::client
