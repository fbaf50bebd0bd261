// Metrics of whole runs. The model is a batch norm that was not trained, so its
// outputs are the features of the rows, but for a factor near 1. The expected
// numbers are those of scikit-learn 1.2.1, as in the tests of engine/metrics.
#include "engine/train/evaluation_metrics.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/train/training_run.h"
#include "tests/engine/train/run_fixture.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Row = std::vector<double>;  // features, then labels

class EvaluationMetricsTest : public RunFixture {
 protected:
  // Evaluates the rows with batches of three. `shape` is that of the features
  // and outputs; the other numbers of a row are its labels.
  absl::StatusOr<v1::Evaluation> Evaluate(const std::string& training,
                                          const std::vector<int64_t>& shape,
                                          const std::vector<Row>& rows) {
    v1::JobSpec spec;
    const std::string text = absl::StrCat(
        "model { input_shape: [", absl::StrJoin(shape, ","),
        "] layers { batch_norm {} } } data { held_out { last: ", rows.size(),
        " } } training { ", training,
        " sgd { learning_rate: 1 } steps: 1 batch_size: 3 }");
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec))
        << text;
    std::string csv;
    for (int i = 0; i < 3; ++i) absl::StrAppend(&csv, LineOf(rows[0]));
    for (const Row& row : rows) absl::StrAppend(&csv, LineOf(row));
    v1::Dataset dataset = StoreCsv(csv);
    int64_t features = 1;
    for (int64_t dimension : shape) features *= dimension;
    for (auto i = features; i < static_cast<int64_t>(rows[0].size()); ++i) {
      dataset.mutable_layout()->add_label_columns(static_cast<int32_t>(i));
    }
    auto run = TrainingRun::Create(
        Device(),
        {.job_id = 3, .attempt = 1, .spec = spec, .dataset = dataset});
    if (!run.ok()) return run.status();
    auto evaluation = (*run)->Evaluate();
    EXPECT_EQ((*run)->memory().planned_peak_bytes(),
              (*run)->memory().measured_peak_bytes());
    return evaluation;
  }

  static std::string LineOf(const Row& row) {
    return absl::StrCat(absl::StrJoin(row, ","), "\n");
  }
};

std::vector<Row> FourClasses() {
  const int labels[] = {0, 1, 2, 2, 1, 0, 3, 3, 1, 1};
  const int answers[] = {0, 2, 2, 2, 1, 0, 3, 1, 1, 3};
  std::vector<Row> rows;
  for (int i = 0; i < 10; ++i) {
    Row row(4, 0.0);
    row[static_cast<size_t>(answers[i])] = 2;
    row.push_back(labels[i]);
    rows.push_back(row);
  }
  return rows;
}

TEST_F(EvaluationMetricsTest, ClassesAreCountedOverAllBatches) {
  const auto evaluation = Evaluate(
      "cross_entropy {} metrics: ['precision', 'recall', 'f1', 'iou', "
      "'confusion', 'perplexity']",
      {4}, FourClasses());
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  const auto& metrics = evaluation->metrics();
  EXPECT_EQ(metrics.size(), 5u);
  EXPECT_DOUBLE_EQ(metrics.at("precision"), 0.7083333333333333);
  EXPECT_DOUBLE_EQ(metrics.at("recall"), 0.75);
  EXPECT_DOUBLE_EQ(metrics.at("f1"), 0.717857142857143);
  EXPECT_DOUBLE_EQ(metrics.at("iou"), 0.6);
  EXPECT_DOUBLE_EQ(metrics.at("perplexity"), std::exp(evaluation->loss()));
  EXPECT_EQ(evaluation->confusion().classes(), 4u);
  EXPECT_THAT(evaluation->confusion().counts(),
              ElementsAre(2, 0, 0, 0, 0, 2, 1, 1, 0, 0, 2, 0, 0, 1, 0, 1));
  EXPECT_DOUBLE_EQ(evaluation->accuracy(), 0.7);
}

TEST(SetMeansTest, WhatIsNeverRightIsZero) {
  v1::TrainingSpec training;
  training.mutable_cross_entropy();
  training.set_top_k(2);
  EvaluationSums sums;
  sums.weight = 4;
  sums.counted = 4;
  v1::Evaluation evaluation;
  SetMeans(training, sums, evaluation);
  EXPECT_TRUE(evaluation.has_accuracy());
  EXPECT_EQ(evaluation.accuracy(), 0);
  EXPECT_TRUE(evaluation.has_top_k_accuracy());
  EXPECT_EQ(evaluation.top_k_accuracy(), 0);
}

TEST(SetMeansTest, WhatIsNotMeasuredIsAbsent) {
  v1::TrainingSpec training;
  training.mutable_cross_entropy();
  EvaluationSums sums;
  sums.loss = 6;
  sums.weight = 4;
  sums.counted = 4;
  sums.correct = 3;
  v1::Evaluation evaluation;
  SetMeans(training, sums, evaluation);
  EXPECT_EQ(evaluation.loss(), 1.5);
  EXPECT_EQ(evaluation.accuracy(), 0.75);
  EXPECT_FALSE(evaluation.has_top_k_accuracy()) << "training.top_k is not set";
  training.mutable_mean_squared_error();
  evaluation.Clear();
  SetMeans(training, sums, evaluation);
  EXPECT_EQ(evaluation.loss(), 1.5);
  EXPECT_FALSE(evaluation.has_accuracy()) << "there are no classes";
}

TEST(SetMeansTest, WithoutACountedLabelThereIsNoAccuracy) {
  v1::TrainingSpec training;
  training.mutable_cross_entropy();
  training.set_top_k(2);
  v1::Evaluation evaluation;
  SetMeans(training, EvaluationSums{}, evaluation);
  EXPECT_EQ(evaluation.loss(), 0);
  EXPECT_FALSE(evaluation.has_accuracy());
  EXPECT_FALSE(evaluation.has_top_k_accuracy());
}

TEST_F(EvaluationMetricsTest, IgnoredLabelsCountNowhere) {
  std::vector<Row> rows = FourClasses();
  for (int i = 0; i < 3; ++i) rows.push_back({9, 0, 0, 0, 255});
  const auto evaluation = Evaluate(
      "negative_log_likelihood { ignore_label: 255 class_weights: [1, 2, 3, 4] "
      "} metrics: ['precision', 'confusion']",
      {4}, rows);
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_DOUBLE_EQ(evaluation->metrics().at("precision"), 0.7083333333333333);
  EXPECT_EQ(evaluation->confusion().counts(0), 2u);
}

TEST_F(EvaluationMetricsTest, AreaUnderTheCurve) {
  auto evaluation = Evaluate("cross_entropy {} metrics: 'auc'", {3},
                             {{2, 1, 0, 0},
                              {0.5, 1.5, 0.2, 1},
                              {0, 0.1, 0.3, 2},
                              {1, 1, 1, 1},
                              {3, 0.2, 0.1, 0},
                              {0.2, 0.4, 0.1, 2}});
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_DOUBLE_EQ(evaluation->metrics().at("auc"), 0.9166666666666666);
  evaluation = Evaluate("bce_with_logits {} metrics: 'auc'", {1},
                        {{0.1, 0},
                         {0.8, 1},
                         {0.4, 1},
                         {0.4, 0},
                         {0.9, 1},
                         {0.05, 0},
                         {0.7, 0},
                         {0.7, 1}});
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_DOUBLE_EQ(evaluation->metrics().at("auc"), 0.875);
}

TEST_F(EvaluationMetricsTest, AnAreaThatNoRowDefinesIsLeftOut) {
  const auto evaluation =
      Evaluate("bce_with_logits {} metrics: ['auc', 'recall']", {1},
               {{0.1, 1}, {0.8, 1}, {-0.4, 1}});
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_EQ(evaluation->metrics().count("auc"), 0u);
  EXPECT_DOUBLE_EQ(evaluation->metrics().at("recall"), 2. / 3);
}

TEST_F(EvaluationMetricsTest, OneAnswerMakesTwoClasses) {
  const int labels[] = {0, 1, 1, 0, 1, 0, 0, 1};
  const int answers[] = {0, 1, 0, 1, 1, 0, 1, 1};
  std::vector<Row> rows;
  for (int i = 0; i < 8; ++i) {
    rows.push_back({answers[i] == 1 ? 0.5 : -0.5, double(labels[i])});
  }
  const auto evaluation = Evaluate(
      "bce_with_logits {} metrics: ['precision', 'recall', 'f1', "
      "'iou', 'confusion']",
      {1}, rows);
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_DOUBLE_EQ(evaluation->metrics().at("precision"), 0.6);
  EXPECT_DOUBLE_EQ(evaluation->metrics().at("recall"), 0.75);
  EXPECT_DOUBLE_EQ(evaluation->metrics().at("f1"), 2. / 3);
  EXPECT_DOUBLE_EQ(evaluation->metrics().at("iou"), 0.45);
  EXPECT_THAT(evaluation->confusion().counts(), ElementsAre(2, 2, 1, 3));
}

TEST_F(EvaluationMetricsTest, SeveralAnswersHaveTheirMean) {
  const auto evaluation = Evaluate(
      "bce_with_logits {} metrics: ['precision', 'recall', 'f1', "
      "'iou']",
      {3},
      {{1, -1, 1, 1, 0, 1},
       {1, 1, -1, 0, 1, 0},
       {1, -1, -1, 1, 1, 0},
       {-1, -1, -1, 0, 0, 0}});
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_DOUBLE_EQ(evaluation->metrics().at("precision"), 0.8888888888888888);
  EXPECT_DOUBLE_EQ(evaluation->metrics().at("recall"), 0.8333333333333334);
  EXPECT_DOUBLE_EQ(evaluation->metrics().at("f1"), 0.8222222222222223);
  EXPECT_DOUBLE_EQ(evaluation->metrics().at("iou"), 0.7222222222222222);
}

TEST_F(EvaluationMetricsTest, NumbersAreComparedByColumn) {
  for (const char* loss : {"mean_squared_error", "l1", "huber"}) {
    const auto evaluation = Evaluate(
        absl::StrCat(loss, " {} metrics: ['mae', 'r2']"), {2},
        {{1.1, 2.5, 1, 2}, {1.8, 3.5, 2, 4}, {2.9, 2, 3, 3}, {5.5, 1.2, 5, 1}});
    ASSERT_TRUE(evaluation.ok()) << evaluation.status();
    EXPECT_NEAR(evaluation->metrics().at("mae"), 0.3875, 1e-4);
    EXPECT_NEAR(evaluation->metrics().at("r2"), 0.8282857142857143, 1e-4);
  }
}

// Two images of 2 x 2 pixels and three classes, which come first: the answers
// are 0 1 / 2 0 and 1 1 / 2 2.
TEST_F(EvaluationMetricsTest, PixelsAreRows) {
  const std::vector<Row> rows = {
      {1, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 0, 1, 1, 9},
      {0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1, 0, 2, 2}};
  const auto evaluation = Evaluate(
      "cross_entropy { ignore_label: 9 } metrics: ['iou', "
      "'confusion']",
      {3, 2, 2}, rows);
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_THAT(evaluation->confusion().counts(),
              ElementsAre(1, 1, 0, 0, 2, 1, 0, 0, 2));
  EXPECT_DOUBLE_EQ(evaluation->metrics().at("iou"),
                   (1. / 2 + 2. / 4 + 2. / 3) / 3);
  EXPECT_DOUBLE_EQ(evaluation->accuracy(), 5. / 7);
}

// The same masks as yes-or-no answers: one channel, so two classes.
TEST_F(EvaluationMetricsTest, ChannelsOfAMaskAreItsAnswers) {
  const std::vector<Row> rows = {{1, -1, -1, 1, 1, 0, 1, 1}};
  auto evaluation = Evaluate("bce_with_logits {} metrics: ['iou', 'confusion']",
                             {1, 2, 2}, rows);
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_THAT(evaluation->confusion().counts(), ElementsAre(1, 0, 1, 2));
  // Two channels of two pixels: each has one answer of two that is right.
  evaluation = Evaluate("bce_with_logits {} metrics: ['recall', 'precision']",
                        {2, 1, 2}, {{1, 1, -1, 1, 1, 0, 1, 1}});
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_DOUBLE_EQ(evaluation->metrics().at("precision"), (0.5 + 1) / 2);
  EXPECT_DOUBLE_EQ(evaluation->metrics().at("recall"), (1 + 0.5) / 2);
}

TEST_F(EvaluationMetricsTest, WhatDoesNotFitTheLossIsRefusedWithTheList) {
  const std::vector<Row> rows = {{1, 0, 0}, {0, 1, 1}};
  const std::pair<const char*, const char*> cases[] = {
      {"cross_entropy {} metrics: ['f1', 'mcc']",
       "'mcc' is no metric of cross_entropy; it has precision, recall, f1, "
       "auc, iou, confusion, perplexity"},
      {"cross_entropy {} metrics: 'mae'", "'mae' is no metric"},
      {"l1 {} metrics: 'f1'", "'f1' is no metric of l1; it has mae, r2"},
      {"kl_divergence {} metrics: 'r2'",
       "'r2' is no metric of kl_divergence, which has none"},
      {"bce_with_logits {} metrics: 'perplexity'", "'perplexity' is no metric"},
  };
  for (const auto& [training, message] : cases) {
    const auto status = Evaluate(training, {2}, rows).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(message));
  }
}

TEST(MetricSizesTest, WhatWouldTakeTooMuchIsRefused) {
  v1::TrainingSpec training;
  training.mutable_cross_entropy();
  training.add_metrics("confusion");
  EXPECT_TRUE(CheckMetricSizes(training, {100}, 1 << 30).ok());
  EXPECT_THAT(CheckMetricSizes(training, {101}, 1).message(),
              HasSubstr("'confusion' of 101 classes has 10201 numbers; at most "
                        "100 classes"));
  training.mutable_bce_with_logits();
  EXPECT_TRUE(CheckMetricSizes(training, {1, 4, 4}, 1).ok());
  EXPECT_THAT(
      CheckMetricSizes(training, {2}, 1).message(),
      HasSubstr("needs one answer for each row, but the model gives 2"));
  training.set_metrics(0, "auc");
  EXPECT_TRUE(CheckMetricSizes(training, {2}, kMaxKeptScores / 2).ok());
  EXPECT_THAT(CheckMetricSizes(training, {2}, kMaxKeptScores / 2 + 1).message(),
              HasSubstr("at most 16777216, but 8388609 rows have 2 each"));
  training.mutable_cross_entropy();
  EXPECT_TRUE(CheckMetricSizes(training, {2}, kMaxKeptScores).ok())
      << "two classes are one column";
  EXPECT_FALSE(CheckMetricSizes(training, {3, 64, 64}, 1366).ok());
  EXPECT_TRUE(CheckMetricSizes(training, {3, 64, 64}, 1365).ok());
}

}  // namespace
}  // namespace gpupool::engine
