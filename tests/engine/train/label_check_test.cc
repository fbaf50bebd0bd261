#include "engine/train/label_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "gpupool/v1/dataset.pb.h"
#include "gpupool/v1/job.pb.h"
#include "tests/engine/data/columns.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

// Returns 100 rows whose labels are whole numbers from `minimum` to `maximum`.
DataFacts Whole(double minimum, double maximum,
                std::vector<int64_t> shape = {}) {
  return {100, {16}, {std::move(shape), true, minimum, maximum}};
}

DataFacts Numbers(double minimum, double maximum,
                  std::vector<int64_t> shape = {}) {
  return {100, {16}, {std::move(shape), false, minimum, maximum}};
}

v1::TrainingSpec CrossEntropy() {
  v1::TrainingSpec training;
  training.mutable_cross_entropy();
  return training;
}

std::string LabelErrorOf(const v1::TrainingSpec& training,
                         const DataFacts& facts, const Shape& output) {
  const absl::Status status = CheckLabels(training, facts, output);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(LabelCheckTest, ClassesAreOnesThatTheModelTellsApart) {
  const v1::TrainingSpec training = CrossEntropy();
  EXPECT_TRUE(CheckLabels(training, Whole(0, 9), {10}).ok());
  EXPECT_TRUE(CheckLabels(training, Whole(3, 9), {12}).ok());
  EXPECT_THAT(LabelErrorOf(training, Whole(0, 9), {9}),
              HasSubstr("dense units 10"));
  EXPECT_THAT(LabelErrorOf(training, Whole(0, 299, {32}), {32, 256}),
              HasSubstr("labels 0 to 299, but the model's output tells only "
                        "256 classes apart; end the model with dense units "
                        "300, or set vocabulary: 300 of a named"));
  EXPECT_THAT(LabelErrorOf(training, Whole(-1, 9), {10}),
              HasSubstr("label -1; change the labels, or set ignore_label"));
  EXPECT_THAT(LabelErrorOf(training, Numbers(0, 1), {10}),
              HasSubstr("cross_entropy needs whole-number labels"));
}

TEST(LabelCheckTest, AnIgnoredLabelMayBeOutOfRange) {
  v1::TrainingSpec training = CrossEntropy();
  training.mutable_cross_entropy()->set_ignore_label(-100);
  EXPECT_TRUE(CheckLabels(training, Whole(-100, 9), {10}).ok());
  EXPECT_THAT(LabelErrorOf(training, Whole(-100, 10), {10}),
              HasSubstr("labels 0 to 10"));
  training.mutable_cross_entropy()->set_ignore_label(255);
  EXPECT_TRUE(CheckLabels(training, Whole(0, 255), {10}).ok());
  EXPECT_THAT(LabelErrorOf(training, Whole(-1, 255), {10}),
              HasSubstr("label -1"));
}

TEST(LabelCheckTest, TokensAreOneClassForEachPosition) {
  v1::TrainingSpec training;
  training.mutable_negative_log_likelihood();
  EXPECT_TRUE(CheckLabels(training, Whole(0, 9, {4}), {4, 10}).ok());
  EXPECT_TRUE(CheckLabels(training, Whole(0, 9, {4, 1}), {4, 10}).ok());
  EXPECT_TRUE(CheckLabels(training, Whole(0, 9), {1, 10}).ok());
  EXPECT_THAT(LabelErrorOf(training, Whole(0, 9), {4, 10}),
              HasSubstr("output [4, 10] compares with 4 class numbers a row, "
                        "but the dataset has one label a row"));
  EXPECT_THAT(LabelErrorOf(training, Whole(0, 9, {2, 3}), {4, 10}),
              HasSubstr("labels of shape [2,3]"));
  EXPECT_THAT(LabelErrorOf(training, Whole(0, 9, {4}), {10}),
              HasSubstr("choose one label column"));
}

TEST(LabelCheckTest, DenseLabelsAreOneClassForEachPixel) {
  const v1::TrainingSpec training = CrossEntropy();
  EXPECT_TRUE(CheckLabels(training, Whole(0, 9, {4, 6}), {10, 4, 6}).ok());
  EXPECT_TRUE(CheckLabels(training, Whole(0, 9, {24}), {10, 4, 6}).ok());
  EXPECT_TRUE(
      CheckLabels(training, Whole(0, 9, {2, 4, 6}), {10, 2, 4, 6}).ok());
  EXPECT_THAT(LabelErrorOf(training, Whole(0, 10, {4, 6}), {10, 4, 6}),
              HasSubstr("tells only 10 classes apart"));
  EXPECT_THAT(LabelErrorOf(training, Whole(0, 9, {6, 4}), {10, 4, 6}),
              HasSubstr("output [10, 4, 6] compares with 24 class numbers a "
                        "row, but the dataset has labels of shape [6,4]"));
  EXPECT_THAT(LabelErrorOf(training, Whole(0, 9), {10, 4, 6}),
              HasSubstr("end the model with flatten and dense"));
  EXPECT_THAT(LabelErrorOf(training, Whole(0, 9), {10, 4, 6, 2, 2}),
              HasSubstr("needs an output [classes], [positions, classes] or "
                        "[classes, height, width]"));
}

TEST(LabelCheckTest, TopKIsAtMostTheClasses) {
  v1::TrainingSpec training = CrossEntropy();
  training.set_top_k(10);
  EXPECT_TRUE(CheckLabels(training, Whole(0, 9), {10}).ok());
  training.set_top_k(11);
  EXPECT_THAT(LabelErrorOf(training, Whole(0, 9), {10}),
              HasSubstr("top_k is 11"));
  EXPECT_THAT(LabelErrorOf(training, Whole(0, 9, {4}), {4, 10}),
              HasSubstr("top_k is 11"));
}

TEST(LabelCheckTest, NumbersAreAsManyAsTheOutputs) {
  v1::TrainingSpec training;
  training.mutable_huber();
  EXPECT_TRUE(CheckLabels(training, Numbers(-5, 5), {1}).ok());
  EXPECT_TRUE(CheckLabels(training, Numbers(-5, 5, {6}), {6}).ok());
  EXPECT_TRUE(CheckLabels(training, Numbers(-5, 5, {6}), {2, 3}).ok())
      << "columns of a table have no other shape";
  EXPECT_TRUE(CheckLabels(training, Numbers(-5, 5, {2, 3}), {2, 1, 3}).ok());
  EXPECT_THAT(LabelErrorOf(training, Numbers(-5, 5, {3, 2}), {2, 3}),
              HasSubstr("output is [2, 3], but the dataset has labels of shape "
                        "[3,2] a row"));
  EXPECT_THAT(LabelErrorOf(training, Numbers(-5, 5), {2}),
              HasSubstr("dense units 1"));
}

TEST(LabelCheckTest, ProbabilitiesGoFromZeroToOne) {
  v1::TrainingSpec training;
  training.mutable_bce_with_logits();
  EXPECT_TRUE(CheckLabels(training, Whole(0, 1, {3}), {3}).ok());
  EXPECT_TRUE(CheckLabels(training, Numbers(0.1, 0.9), {1}).ok());
  EXPECT_THAT(LabelErrorOf(training, Whole(0, 9), {1}),
              HasSubstr("needs labels from 0 to 1, but the dataset's go from 0 "
                        "to 9; choose cross_entropy"));
  training.mutable_kl_divergence();
  EXPECT_TRUE(CheckLabels(training, Numbers(0, 1, {3}), {3}).ok());
  EXPECT_THAT(LabelErrorOf(training, Numbers(-0.1, 1, {3}), {3}),
              HasSubstr("upload probabilities"));
}

TEST(LabelCheckTest, AnUnknownRangeIsCheckedWhenTheRowsAreThere) {
  v1::TrainingSpec training;
  training.mutable_bce_with_logits();
  const DataFacts old = {100, {16}, LabelFactsOf(v1::Dataset())};
  EXPECT_TRUE(CheckLabels(training, old, {1}).ok());
}

TEST(LabelCheckTest, BeforeTheDataIsThereOnlyTheOutputsFormCounts) {
  DataFacts assumed = Whole(0, 0);
  assumed.assumed = true;
  EXPECT_TRUE(CheckLabels(CrossEntropy(), assumed, {4, 10}).ok());
  EXPECT_FALSE(CheckLabels(CrossEntropy(), assumed, {2, 2, 2, 2, 10}).ok());
  v1::TrainingSpec training;
  training.mutable_l1();
  EXPECT_TRUE(CheckLabels(training, assumed, {2, 3}).ok());
}

TEST(LabelCheckTest, ProbabilitiesOfAnUnknownRangeAreRead) {
  v1::TrainingSpec training;
  training.mutable_bce_with_logits();
  Column labels = ColumnOf({2}, {0, 0.5f, 1, 2});
  labels.facts.minimum = labels.facts.maximum = NAN;
  EXPECT_EQ(CheckLabelValues(training, labels, {2}).message(),
            "bce_with_logits needs labels from 0 to 1, but the dataset's go "
            "from 0 to 2; choose cross_entropy for class numbers");
  labels.rows = 1;
  EXPECT_TRUE(CheckLabelValues(training, labels, {2}).ok());
  labels.rows = 2;
  training.mutable_l1();
  EXPECT_TRUE(CheckLabelValues(training, labels, {2}).ok());
}

TEST(LabelCheckTest, EveryLabelIsReadWhenTheRowsAreThere) {
  v1::TrainingSpec training = CrossEntropy();
  training.mutable_cross_entropy()->set_ignore_label(255);
  Column labels = ColumnOf({2}, {0, 255, 9, 255});
  EXPECT_TRUE(CheckLabelValues(training, labels, {2, 10}).ok());
  EXPECT_TRUE(CheckLabelValues(training, labels, {10, 2, 1}).ok());
  labels = ColumnOf({2}, {0, 255, 10, 255});
  EXPECT_EQ(CheckLabelValues(training, labels, {2, 10}).message(),
            "row 1 of the dataset, counted from 0, has label 10, but the model "
            "tells only classes 0 to 9 apart and 255 is ignored; mend the row "
            "or the model");
  training.mutable_l1();
  EXPECT_TRUE(CheckLabelValues(training, labels, {2}).ok());
}

}  // namespace
}  // namespace gpupool::engine
