// Trains a net with two inputs and two outputs. Expected losses were computed
// with PyTorch 1.13 in double precision.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "engine/train/training_run.h"
#include "tests/engine/train/run_fixture.h"
#include "tests/engine/train/two_heads.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

class TrainingInputsTest : public RunFixture {
 protected:
  TrainingInputsTest() {
    dataset_ = StoreNpz(TwoHeadsNpz());
    NameTwoHeads(*dataset_.mutable_layout());
    StoreModel(TwoHeadsOnnx(), spec_);
    spec_.mutable_data()->mutable_held_out()->set_last(4);
    v1::TrainingSpec& training = *spec_.mutable_training();
    training.mutable_sgd()->set_learning_rate(0.5);
    training.set_batch_size(8);
    training.set_steps(8);
    AddTwoLosses(training);
  }

  absl::StatusOr<std::unique_ptr<TrainingRun>> Start(
      const std::string& resume = "") {
    return TrainingRun::Create(Device(), {.job_id = 3,
                                          .attempt = 1,
                                          .spec = spec_,
                                          .dataset = dataset_,
                                          .validation = validation_,
                                          .resume_manifest_sha256 = resume});
  }

  std::string ErrorOfStart() {
    auto run = Start();
    EXPECT_EQ(run.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(run.status().message());
  }

  // Steps to the end and returns the losses.
  static std::vector<double> Train(TrainingRun& run) {
    std::vector<double> losses;
    while (!run.done()) {
      const absl::Status status = run.Step();
      EXPECT_TRUE(status.ok()) << status;
      if (!status.ok()) break;
      losses.push_back(*run.Loss());
    }
    return losses;
  }

  v1::Dataset dataset_;
  v1::Dataset validation_;
  v1::JobSpec spec_;
};

constexpr double kLosses[] = {1.3786631, 1.3195447, 1.2716213, 1.2289612,
                              1.1876717, 1.1450562, 1.0992315, 1.0489944};

TEST_F(TrainingInputsTest, TheWeightedSumFallsAsInPyTorch) {
  auto run = Start();
  ASSERT_TRUE(run.ok()) << run.status();
  const std::vector<double> losses = Train(**run);
  ASSERT_EQ(losses.size(), 8u);
  for (size_t i = 0; i < losses.size(); ++i) {
    EXPECT_NEAR(losses[i], kLosses[i], 2e-6) << i;
  }
  auto evaluation = (*run)->Evaluate();
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_NEAR(evaluation->loss(), 1.0898870, 2e-6);
  EXPECT_EQ(evaluation->accuracy(), 0.25) << "of the classification";
  EXPECT_EQ((*run)->memory().planned_peak_bytes(),
            (*run)->memory().measured_peak_bytes());
}

TEST_F(TrainingInputsTest, AccumulatedBatchesGiveTheSameCurve) {
  spec_.mutable_training()->set_batch_size(4);
  spec_.mutable_training()->set_accumulate_batches(2);
  auto run = Start();
  ASSERT_TRUE(run.ok()) << run.status();
  const std::vector<double> losses = Train(**run);
  ASSERT_EQ(losses.size(), 8u);
  for (size_t i = 0; i < losses.size(); ++i) {
    EXPECT_NEAR(losses[i], kLosses[i], 4e-6) << i;
  }
  EXPECT_EQ((*run)->memory().planned_peak_bytes(),
            (*run)->memory().measured_peak_bytes());
}

TEST_F(TrainingInputsTest, AResumedRunHasTheSameBits) {
  spec_.mutable_training()->set_batch_size(3);
  spec_.mutable_training()->set_steps(9);
  spec_.mutable_training()->mutable_ema()->set_decay(0.9);
  auto run = Start();
  ASSERT_TRUE(run.ok()) << run.status();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE((*run)->Step().ok());
  const std::string middle = (*run)->SaveCheckpoint()->manifest_sha256();
  Train(**run);
  const v1::Evaluation evaluation = *(*run)->Evaluate();
  const std::string end = (*run)->SaveCheckpoint()->manifest_sha256();
  run->reset();
  auto resumed = Start(middle);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  Train(**resumed);
  EXPECT_EQ((*resumed)->Evaluate()->loss(), evaluation.loss());
  EXPECT_EQ((*resumed)->SaveCheckpoint()->manifest_sha256(), end);
}

TEST_F(TrainingInputsTest, OneLossReadsOneOutputAndOneTarget) {
  v1::TrainingSpec& training = *spec_.mutable_training();
  training.clear_losses();
  training.mutable_mean_squared_error();
  training.set_output("score");
  EXPECT_THAT(ErrorOfStart(),
              HasSubstr("the dataset has the targets 'label', 'score'"));
  dataset_.mutable_layout()->mutable_target_arrays()->erase("label");
  auto run = Start();
  ASSERT_TRUE(run.ok()) << run.status();
  const std::vector<double> losses = Train(**run);
  EXPECT_LT(losses.back(), 0.8 * losses.front());
}

TEST_F(TrainingInputsTest, TheSameTargetMayServeSeveralLosses) {
  v1::TrainingSpec& training = *spec_.mutable_training();
  v1::OutputLoss* third = training.add_losses();
  *third = training.losses(0);
  third->set_weight(0);
  auto run = Start();
  ASSERT_TRUE(run.ok()) << run.status();
  const std::vector<double> losses = Train(**run);
  EXPECT_NEAR(losses.back(), kLosses[7], 2e-6) << "a weight of 0 adds nothing";
  EXPECT_NEAR((*run)->Evaluate()->loss(), 1.0898870, 2e-6);
}

TEST_F(TrainingInputsTest, ErrorsNameOutputsTargetsAndInputs) {
  v1::TrainingSpec& training = *spec_.mutable_training();
  training.mutable_losses(0)->set_output("logit");
  EXPECT_EQ(ErrorOfStart(),
            "training.losses[0].output: the model has no output 'logit'; it "
            "has 'logits', 'score'");
  training.mutable_losses(0)->clear_output();
  EXPECT_THAT(ErrorOfStart(), HasSubstr("training.losses[0].output is missing; "
                                        "the model has 'logits', 'score'"));
  training.mutable_losses(0)->set_output("logits");
  training.mutable_losses(1)->set_target("scores");
  EXPECT_EQ(ErrorOfStart(),
            "training.losses[1].target: the dataset has no target 'scores'; "
            "it has 'label', 'score'");
  training.mutable_losses(1)->set_target("label");
  EXPECT_THAT(ErrorOfStart(), HasSubstr("training.losses[1]: "
                                        "mean_squared_error compares"));
  training.mutable_losses(1)->set_target("score");
  dataset_.mutable_layout()->mutable_input_arrays()->erase("x");
  EXPECT_THAT(ErrorOfStart(),
              HasSubstr("the model's input 'x' is not in the dataset, which "
                        "has 'ids'"));
  (*dataset_.mutable_layout()->mutable_input_arrays())["x"] = "numbers";
  (*dataset_.mutable_layout()->mutable_input_arrays())["ids"] = "score";
  EXPECT_THAT(ErrorOfStart(), HasSubstr("'ids' [4] takes 4 numbers"));
  spec_.mutable_data()->mutable_scaling()->set_multiply(2);
  EXPECT_FALSE(Start().ok());
}

TEST_F(TrainingInputsTest, NoInputOfTheModelHasTheNameOfTargets) {
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(TwoHeadsOnnx()));
  model.mutable_graph()->mutable_input(1)->set_name("target");
  for (onnx::NodeProto& node : *model.mutable_graph()->mutable_node()) {
    for (std::string& input : *node.mutable_input()) {
      if (input == "x") input = "target";
    }
  }
  StoreModel(model.SerializeAsString(), spec_);
  v1::DatasetLayout& layout = *dataset_.mutable_layout();
  layout.mutable_input_arrays()->erase("x");
  (*layout.mutable_input_arrays())["target"] = "numbers";
  layout.mutable_target_arrays()->erase("score");
  v1::TrainingSpec& training = *spec_.mutable_training();
  training.clear_losses();
  training.mutable_cross_entropy();
  training.set_output("logits");
  EXPECT_EQ(ErrorOfStart(),
            "the model's input 'target' has the name of the targets of a "
            "batch; rename it");
}

TEST_F(TrainingInputsTest, AccuracyIsThatOfTheFirstClassification) {
  v1::TrainingSpec& training = *spec_.mutable_training();
  training.mutable_losses()->SwapElements(0, 1);
  training.set_top_k(3);
  auto run = Start();
  ASSERT_TRUE(run.ok()) << run.status();
  Train(**run);
  auto evaluation = (*run)->Evaluate();
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_NEAR(evaluation->loss(), 1.0898870, 2e-6);
  EXPECT_EQ(evaluation->accuracy(), 0.25);
  EXPECT_EQ(evaluation->top_k_accuracy(), 1);
}

TEST_F(TrainingInputsTest, MetricsAreThoseOfTheFirstClassification) {
  v1::TrainingSpec& training = *spec_.mutable_training();
  training.mutable_losses()->SwapElements(0, 1);
  training.add_metrics("perplexity");
  training.add_metrics("confusion");
  auto run = Start();
  ASSERT_TRUE(run.ok()) << run.status();
  const auto both = (*run)->Evaluate();
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->confusion().classes(), 3u);
  uint64_t pairs = 0;
  for (const uint64_t count : both->confusion().counts()) pairs += count;
  EXPECT_EQ(pairs, 4u) << "held-out rows";
  run->reset();
  training.mutable_losses(0)->set_weight(0);
  run = Start();
  ASSERT_TRUE(run.ok()) << run.status();
  const auto one = (*run)->Evaluate();
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_LT(one->loss(), both->loss());
  EXPECT_DOUBLE_EQ(both->metrics().at("perplexity"), std::exp(one->loss()));
  run->reset();
  training.set_metrics(0, "mae");
  EXPECT_THAT(ErrorOfStart(), HasSubstr("'mae' is no metric of cross_entropy"));
}

TEST_F(TrainingInputsTest, ArraysOfAValidationSetFillTheSameInputs) {
  spec_.mutable_data()->clear_held_out();
  spec_.mutable_data()->set_dataset("train");
  spec_.mutable_data()->set_validation("val");
  validation_ = dataset_;
  spec_.mutable_training()->set_steps(1);
  auto run = Start();
  ASSERT_TRUE(run.ok()) << run.status();
  Train(**run);
  const auto evaluation = (*run)->Evaluate();
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_EQ(evaluation->rows(), uint64_t{kTwoHeadsRows});
  EXPECT_GT(evaluation->loss(), 0);
  EXPECT_EQ((*run)->memory().planned_peak_bytes(),
            (*run)->memory().measured_peak_bytes());
  run->reset();
  validation_.mutable_layout()->mutable_target_arrays()->erase("score");
  EXPECT_EQ(ErrorOfStart(),
            "data.validation: dataset \"val\" has the arrays 'label', but "
            "\"train\" has 'label', 'score'; both need rows of the same form");
}

}  // namespace
}  // namespace gpupool::engine
