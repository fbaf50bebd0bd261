#include "engine/train/job_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "gpupool/v1/dataset.pb.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

// Returns 100 rows of [4, 4] with labels 0 to 9.
DataFacts Facts() { return {100, {4, 4}, {{}, true, 0, 9}}; }

v1::JobSpec GoodSpec() {
  v1::JobSpec spec;
  spec.mutable_data()->mutable_held_out()->set_every(5);
  spec.mutable_training()->mutable_cross_entropy();
  spec.mutable_training()->mutable_adam();
  spec.mutable_training()->set_batch_size(30);
  spec.mutable_training()->set_epochs(3);
  return spec;
}

std::string ErrorOf(const v1::JobSpec& spec) {
  auto length = CheckTraining(spec, Facts());
  EXPECT_EQ(length.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(length.status().message());
}

TEST(JobCheckTest, CountsRowsAndSteps) {
  auto length = CheckTraining(GoodSpec(), Facts());
  ASSERT_TRUE(length.ok()) << length.status();
  EXPECT_EQ(length->training_rows, 80u);
  EXPECT_EQ(length->held_out_rows, 20u);
  EXPECT_EQ(length->steps_per_epoch, 2u) << "the short batch is dropped";
  EXPECT_EQ(length->total_steps, 6u);
  EXPECT_EQ(length->base_learning_rate, 1e-3);
  v1::JobSpec by_steps = GoodSpec();
  by_steps.mutable_training()->set_steps(5);
  EXPECT_EQ(CheckTraining(by_steps, Facts())->total_steps, 5u);
}

TEST(JobCheckTest, FactsComeFromTheDataset) {
  v1::Dataset dataset;
  dataset.set_rows(3);
  dataset.add_feature_shape(2);
  dataset.set_classes(4);
  const DataFacts facts = FactsOf(dataset);
  EXPECT_EQ(facts.rows, 3u);
  EXPECT_EQ(facts.feature_shape, std::vector<int64_t>{2});
  EXPECT_EQ(facts.labels.class_count(), 4u);
}

TEST(JobCheckTest, ScalingReadsABoundedNumberOfWindows) {
  DataFacts facts;
  facts.rows = uint64_t{1} << 20;
  facts.feature_shape = {2048, 2};
  v1::JobSpec spec = GoodSpec();
  v1::DataSpec& data = *spec.mutable_data();
  data.clear_held_out();
  data.mutable_window()->set_length(2048);
  data.mutable_scaling()->mutable_standardize();
  EXPECT_TRUE(CheckTraining(spec, facts).ok());  // 2^32 numbers
  ++facts.rows;
  EXPECT_EQ(CheckTraining(spec, facts).status().message(),
            "data.scaling would read 1048577 windows of 4096 numbers before "
            "the first step; at most 4294967296 numbers are allowed. Scale the "
            "series before its upload, or raise data.window.stride");
  data.mutable_scaling()->mutable_min_max();
  EXPECT_FALSE(CheckTraining(spec, facts).ok());
  data.mutable_scaling()->set_multiply(2);
  EXPECT_TRUE(CheckTraining(spec, facts).ok()) << "reads no window";
  data.mutable_scaling()->mutable_standardize();
  data.clear_window();
  EXPECT_TRUE(CheckTraining(spec, facts).ok()) << "rows share nothing";
}

TEST(JobCheckTest, FactsOfWindowsAreThoseOfTheirRows) {
  v1::Dataset dataset;
  dataset.set_rows(100);
  dataset.add_feature_shape(2);
  dataset.set_feature_type(v1::FLOAT32);
  dataset.set_classes(4);
  v1::JobSpec spec = GoodSpec();
  v1::Window& window = *spec.mutable_data()->mutable_window();
  window.set_length(6);
  window.set_target_rows(3);
  auto facts = FactsOf(spec, dataset, v1::Dataset());
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->rows, 92u);
  EXPECT_EQ(facts->feature_shape, (std::vector<int64_t>{6, 2}));
  EXPECT_EQ(facts->labels.shape, std::vector<int64_t>{3});
  EXPECT_EQ(facts->labels.class_count(), 4u);
  window.clear_target_rows();
  window.set_targets(v1::Window::NEXT_OF_EACH);
  facts = FactsOf(spec, dataset, v1::Dataset());
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->rows, 94u);
  EXPECT_EQ(facts->labels.shape, std::vector<int64_t>{6});
  window.clear_targets();
  window.set_target_rows(3);
  window.set_predict_input(true);
  facts = FactsOf(spec, dataset, v1::Dataset());
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->labels.shape, (std::vector<int64_t>{3, 2}));
  EXPECT_FALSE(facts->labels.whole);
  EXPECT_TRUE(std::isnan(facts->labels.minimum));

  spec.mutable_data()->set_validation("val");
  v1::Dataset validation = dataset;
  validation.set_rows(8);
  EXPECT_EQ(FactsOf(spec, dataset, validation).status().message(),
            "data.validation: data.window needs 9 rows for one window (length "
            "6, horizon 1, target rows 3), but the dataset has 8; lower one of "
            "them, or upload a longer series");
  validation.set_rows(10);
  facts = FactsOf(spec, dataset, validation);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->validation_rows, 2u);
  // The rows of a dataset that does not exist yet are assumed to be enough.
  v1::Dataset assumed;
  assumed.set_rows(50);
  spec.mutable_data()->clear_validation();
  EXPECT_EQ(FactsOf(spec, assumed, v1::Dataset())->rows, 50u);
}

TEST(JobCheckTest, AValidationSetLeavesAllRowsToTheTraining) {
  v1::JobSpec spec = GoodSpec();
  spec.mutable_data()->set_validation("val");
  DataFacts facts = Facts();
  facts.validation_rows = 7;
  EXPECT_THAT(CheckTraining(spec, facts).status().message(),
              HasSubstr("data.held_out and data.validation are both set"));
  spec.mutable_data()->clear_held_out();
  auto length = CheckTraining(spec, facts);
  ASSERT_TRUE(length.ok()) << length.status();
  EXPECT_EQ(length->training_rows, 100u);
  EXPECT_EQ(length->held_out_rows, 7u);
  spec.mutable_training()->mutable_early_stopping()->set_patience(1);
  spec.mutable_training()->set_evaluate_every_steps(1);
  EXPECT_TRUE(CheckTraining(spec, facts).ok());
  facts.validation_rows = 0;
  EXPECT_THAT(CheckTraining(spec, facts).status().message(),
              HasSubstr("dataset \"val\" has no rows"));
}

TEST(JobCheckTest, BothDatasetsHaveRowsOfOneForm) {
  v1::JobSpec spec;
  v1::Dataset train, val;
  train.set_name("train");
  train.set_rows(3);
  train.add_feature_shape(2);
  val.set_name("val");
  val.set_rows(5);
  EXPECT_EQ(FactsOf(spec, train, val)->validation_rows, 0u)
      << "the job does not name it";
  spec.mutable_data()->set_validation("val");
  auto facts = FactsOf(spec, train, val);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->validation_rows, 5u);
  EXPECT_EQ(facts->validation, nullptr)
      << "a dataset without a shape does not exist yet";
  val.add_feature_shape(3);
  EXPECT_THAT(FactsOf(spec, train, val).status().message(),
              HasSubstr("\"val\" have shape [3], but those of \"train\" have "
                        "shape [2]"));
  val.set_feature_shape(0, 2);
  EXPECT_NE(FactsOf(spec, train, val)->validation, nullptr);
}

TEST(JobCheckTest, MetricsNeedRowsToEvaluate) {
  v1::JobSpec spec = GoodSpec();
  spec.mutable_training()->add_metrics("f1");
  EXPECT_TRUE(CheckTraining(spec, Facts()).ok());
  spec.mutable_data()->clear_held_out();
  EXPECT_THAT(ErrorOf(spec),
              HasSubstr("training.metrics are those of held-out rows, but no "
                        "rows are held out; set data.held_out or "
                        "data.validation"));
  spec.mutable_training()->set_metrics(0, "f2");
  EXPECT_THAT(ErrorOf(spec), HasSubstr("'f2' is no metric of cross_entropy"));
}

TEST(JobCheckTest, DevicesTakeEqualPartsOfTheBatch) {
  v1::JobSpec spec = GoodSpec();
  EXPECT_EQ(DevicesOf(spec), 1u);
  for (const uint32_t devices : {1u, 2u, 3u, 30u}) {
    spec.set_devices(devices);
    EXPECT_EQ(DevicesOf(spec), devices);
    auto length = CheckTraining(spec, Facts());
    ASSERT_TRUE(length.ok()) << length.status();
    EXPECT_EQ(length->steps_per_epoch, 2u) << "that of the whole batch";
  }
  spec.set_devices(4);
  EXPECT_THAT(ErrorOf(spec), HasSubstr("such as 28 or 32"));
  spec.set_devices(60);
  EXPECT_THAT(ErrorOf(spec), HasSubstr("such as 60"));
  spec.set_devices(1025);
  EXPECT_THAT(ErrorOf(spec), HasSubstr("at most 1024"));
}

TEST(JobCheckTest, TheBatchFitsTheTrainingRows) {
  v1::JobSpec spec = GoodSpec();
  spec.mutable_training()->set_batch_size(80);
  EXPECT_TRUE(CheckTraining(spec, Facts()).ok());
  spec.mutable_training()->set_batch_size(81);
  EXPECT_EQ(ErrorOf(spec),
            "batch_size 81 is larger than the 80 training rows; lower it to at "
            "most 80");
  spec.mutable_training()->set_batch_size(0);
  EXPECT_THAT(ErrorOf(spec), HasSubstr("batch_size is missing"));
}

TEST(JobCheckTest, WhatIsMissingIsNamed) {
  v1::JobSpec spec = GoodSpec();
  spec.mutable_training()->clear_length();
  EXPECT_THAT(ErrorOf(spec), HasSubstr("set epochs or steps"));
  spec = GoodSpec();
  spec.mutable_training()->clear_loss();
  EXPECT_THAT(ErrorOf(spec), HasSubstr("no loss"));
  spec = GoodSpec();
  spec.mutable_training()->clear_optimizer();
  EXPECT_THAT(ErrorOf(spec), HasSubstr("no optimizer"));
  spec.mutable_training()->mutable_sgd();
  EXPECT_THAT(ErrorOf(spec), HasSubstr("learning_rate is missing"));
}

TEST(JobCheckTest, WhatIsOutOfRangeIsNamed) {
  v1::JobSpec spec = GoodSpec();
  spec.mutable_training()->mutable_cross_entropy()->set_label_smoothing(1);
  EXPECT_THAT(ErrorOf(spec), HasSubstr("label_smoothing is 1"));
  spec = GoodSpec();
  spec.mutable_training()->mutable_huber()->set_delta(0);
  EXPECT_THAT(ErrorOf(spec), HasSubstr("huber.delta is 0"));
  spec = GoodSpec();
  auto& cross_entropy = *spec.mutable_training()->mutable_cross_entropy();
  cross_entropy.add_class_weights(0);
  EXPECT_THAT(ErrorOf(spec), HasSubstr("class_weights are all 0"));
  cross_entropy.add_class_weights(-1);
  EXPECT_THAT(ErrorOf(spec), HasSubstr("cross_entropy.class_weights[1] is -1; "
                                       "each weight must be at least 0"));
  cross_entropy.set_class_weights(1, 1e39);
  EXPECT_THAT(ErrorOf(spec), HasSubstr("1e+39"));
  spec.mutable_training()->mutable_bce_with_logits()->add_positive_weights(0);
  EXPECT_THAT(ErrorOf(spec), HasSubstr("positive_weights[0] is 0; each weight "
                                       "must be above 0"));
  spec = GoodSpec();
  spec.mutable_training()->mutable_schedule()->set_warmup_steps(6);
  EXPECT_THAT(ErrorOf(spec), HasSubstr("warmup_steps is 6"));
  spec = GoodSpec();
  spec.mutable_data()->mutable_scaling()->set_multiply(std::nan(""));
  EXPECT_THAT(ErrorOf(spec), HasSubstr("scaling.multiply"));
  spec = GoodSpec();
  spec.mutable_data()->mutable_held_out()->set_last(100);
  EXPECT_THAT(ErrorOf(spec), HasSubstr("keeps 100 of 100 rows"));
}

TEST(JobCheckTest, FactsOfNamedArraysComeFromTheDataset) {
  v1::Dataset dataset;
  dataset.set_rows(3);
  dataset.add_files();
  v1::DatasetArray* input = dataset.add_inputs();
  input->set_name("ids");
  input->set_data_type(v1::INT64);
  input->add_shape(8);
  v1::DatasetArray* target = dataset.add_targets();
  target->set_name("y");
  target->mutable_facts()->set_whole(true);
  target->mutable_facts()->set_maximum(4);
  const DataFacts facts = FactsOf(dataset);
  EXPECT_FALSE(facts.assumed);
  ASSERT_EQ(facts.inputs.size(), 1u);
  EXPECT_EQ(facts.inputs[0].name, "ids");
  EXPECT_EQ(facts.inputs[0].type, v1::INT64);
  EXPECT_EQ(facts.inputs[0].shape, std::vector<int64_t>{8});
  ASSERT_EQ(facts.targets.size(), 1u);
  EXPECT_EQ(facts.targets[0].labels.class_count(), 5u);
}

TEST(JobCheckTest, LossesReplaceTheOneLoss) {
  v1::JobSpec spec = GoodSpec();
  v1::TrainingSpec& training = *spec.mutable_training();
  training.add_losses()->mutable_l1();
  EXPECT_THAT(ErrorOf(spec), HasSubstr("both losses and cross_entropy"));
  training.clear_loss();
  EXPECT_TRUE(CheckTraining(spec, Facts()).ok());
  training.set_output("y");
  EXPECT_THAT(ErrorOf(spec), HasSubstr("both losses and output"));
  training.clear_output();
  training.add_losses();
  EXPECT_THAT(ErrorOf(spec), HasSubstr("training.losses[1] has no loss"));
  training.mutable_losses(1)->mutable_huber()->set_delta(0);
  EXPECT_THAT(ErrorOf(spec), HasSubstr("huber.delta is 0"));
  training.mutable_losses(1)->mutable_l1();
  training.mutable_losses(1)->set_weight(-1);
  EXPECT_THAT(ErrorOf(spec), HasSubstr("training.losses[1].weight is -1"));
  training.mutable_losses(0)->set_weight(0);
  training.mutable_losses(1)->set_weight(0);
  EXPECT_THAT(ErrorOf(spec), HasSubstr("every weight is 0"));
  for (int i = 0; i < 15; ++i) training.add_losses()->mutable_l1();
  EXPECT_THAT(ErrorOf(spec), HasSubstr("has 17 losses; the limit is 16"));
}

TEST(JobCheckTest, AStepsBatchesFitTheTrainingRows) {
  v1::JobSpec spec = GoodSpec();
  spec.mutable_training()->set_accumulate_batches(2);
  auto length = CheckTraining(spec, Facts());
  ASSERT_TRUE(length.ok()) << length.status();
  EXPECT_EQ(length->steps_per_epoch, 1u);
  spec.mutable_training()->set_accumulate_batches(3);
  EXPECT_THAT(ErrorOf(spec), HasSubstr("need 90 rows for a step, but there are "
                                       "80 training rows"));
  spec.mutable_training()->set_batch_size(UINT32_MAX);
  spec.mutable_training()->set_accumulate_batches(UINT32_MAX);
  EXPECT_THAT(ErrorOf(spec), HasSubstr("80 training rows"));
}

TEST(JobCheckTest, AShorterLastBatchIsAStepMore) {
  v1::JobSpec spec = GoodSpec();
  spec.mutable_data()->set_drop_last(false);
  auto length = CheckTraining(spec, Facts());
  ASSERT_TRUE(length.ok()) << length.status();
  EXPECT_EQ(length->steps_per_epoch, 3u);
  EXPECT_EQ(length->short_step_rows, 20u);
  EXPECT_EQ(length->total_steps, 9u);
  spec.mutable_training()->set_batch_size(40);
  length = CheckTraining(spec, Facts());
  EXPECT_EQ(length->steps_per_epoch, 2u) << "every batch is whole";
  EXPECT_EQ(length->short_step_rows, 0u);
  spec.mutable_training()->set_batch_size(30);
  DataFacts unknown = Facts();
  unknown.assumed = true;
  EXPECT_EQ(CheckTraining(spec, unknown)->short_step_rows, 0u);
  spec.mutable_data()->set_drop_last(true);
  length = CheckTraining(spec, Facts());
  EXPECT_EQ(length->steps_per_epoch, 2u);
  EXPECT_EQ(length->short_step_rows, 0u);
}

TEST(JobCheckTest, AShorterLastBatchIsSharedEquallyAndIsOneBatch) {
  v1::JobSpec spec = GoodSpec();
  spec.mutable_data()->set_drop_last(false);
  spec.set_devices(2);
  EXPECT_EQ(CheckTraining(spec, Facts())->short_step_rows, 20u);
  spec.set_devices(3);
  EXPECT_THAT(ErrorOf(spec),
              HasSubstr("the last batch of an epoch has 20 of the 80 training "
                        "rows, which cannot be shared equally by 3 devices; "
                        "leave data.drop_last out"));
  spec.set_devices(1);
  spec.mutable_training()->set_accumulate_batches(2);
  EXPECT_THAT(ErrorOf(spec), HasSubstr("accumulate_batches is 2"));
  spec.mutable_data()->set_drop_last(true);
  EXPECT_TRUE(CheckTraining(spec, Facts()).ok());
}

TEST(JobCheckTest, WhatGoesByTheHeldOutLossNeedsEvaluations) {
  for (const char* who :
       {"early_stopping", "keep_best_checkpoints", "schedule.plateau"}) {
    v1::JobSpec spec = GoodSpec();
    v1::TrainingSpec& training = *spec.mutable_training();
    if (absl::string_view(who) == "early_stopping") {
      training.mutable_early_stopping()->set_patience(1);
    } else if (absl::string_view(who) == "keep_best_checkpoints") {
      training.set_keep_best_checkpoints(1);
    } else {
      training.mutable_schedule()->mutable_plateau();
    }
    EXPECT_THAT(ErrorOf(spec), HasSubstr(who));
    EXPECT_THAT(ErrorOf(spec), HasSubstr("set evaluate_every_epochs or"));
    training.set_evaluate_every_steps(2);
    EXPECT_TRUE(CheckTraining(spec, Facts()).ok());
    spec.mutable_data()->clear_held_out();
    EXPECT_THAT(ErrorOf(spec), HasSubstr("set data.held_out"));
  }
}

}  // namespace
}  // namespace gpupool::engine
