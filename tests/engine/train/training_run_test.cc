#include "engine/train/training_run.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "engine/base/philox.h"
#include "tests/engine/train/run_fixture.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

class TrainingRunTest : public RunFixture {
 protected:
  // Returns rows of y = 2a - 3b + 1 with a, b in [0, 1).
  static std::string LinearCsv(int rows) {
    Philox random(11);
    std::string text;
    for (int i = 0; i < rows; ++i) {
      const double a = random.NextFloat(), b = random.NextFloat();
      text += std::to_string(a) + "," + std::to_string(b) + "," +
              std::to_string(2 * a - 3 * b + 1) + "\n";
    }
    return text;
  }

  static v1::JobSpec RegressionJob() {
    v1::JobSpec spec;
    spec.mutable_model()->add_input_shape(2);
    spec.mutable_model()->add_layers()->mutable_dense()->set_units(1);
    spec.mutable_training()->mutable_mean_squared_error();
    spec.mutable_training()->mutable_sgd()->set_learning_rate(0.3);
    spec.mutable_training()->set_batch_size(10);
    spec.mutable_training()->set_epochs(60);
    spec.mutable_data()->mutable_held_out()->set_last(13);
    return spec;
  }

  absl::StatusOr<std::unique_ptr<TrainingRun>> Start(
      const v1::JobSpec& spec, const v1::Dataset& dataset,
      const std::string& resume = "") {
    auto run =
        TrainingRun::Create(Device(), {.job_id = 3,
                                       .attempt = 1,
                                       .spec = spec,
                                       .dataset = dataset,
                                       .resume_manifest_sha256 = resume});
    if (!run.ok()) return run.status();
    return *std::move(run);
  }
};

TEST_F(TrainingRunTest, LearnsALine) {
  auto run = Start(RegressionJob(), StoreCsv(LinearCsv(113)));
  ASSERT_TRUE(run.ok()) << run.status();
  while (!(*run)->done()) ASSERT_TRUE((*run)->Step().ok());
  EXPECT_LT(*(*run)->Loss(), 1e-4);
  auto evaluation = (*run)->Evaluate();
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_EQ(evaluation->rows(), 13u);
  EXPECT_LT(evaluation->loss(), 1e-4);
  EXPECT_FALSE(evaluation->has_accuracy()) << "no classes";
}

TEST_F(TrainingRunTest, EvaluationCountsEveryHeldOutRowOnce) {
  // Thirteen rows in batches of ten, so the last batch is padded. An untrained
  // model gives the same loss whatever the batch size.
  const v1::Dataset dataset = StoreCsv(LinearCsv(113));
  v1::JobSpec spec = RegressionJob();
  auto padded = Start(spec, dataset);
  spec.mutable_training()->set_batch_size(13);
  auto whole = Start(spec, dataset);
  ASSERT_TRUE(padded.ok() && whole.ok());
  EXPECT_NEAR((*padded)->Evaluate()->loss(), (*whole)->Evaluate()->loss(),
              1e-5);
}

TEST_F(TrainingRunTest, NothingHeldOutMeansNothingToEvaluate) {
  v1::JobSpec spec = RegressionJob();
  spec.mutable_data()->clear_held_out();
  auto run = Start(spec, StoreCsv(LinearCsv(50)));
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_FALSE((*run)->has_held_out_rows());
  EXPECT_THAT((*run)->Evaluate().status().message(),
              HasSubstr("set data.held_out"));
}

TEST_F(TrainingRunTest, EpochsAreCountedFromTheFirstStep) {
  auto run = Start(RegressionJob(), StoreCsv(LinearCsv(33)));  // 2 steps each
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ((*run)->epoch(), 0u);
  EXPECT_FALSE((*run)->at_epoch_end());
  const std::vector<uint32_t> epochs = {1, 1, 2, 2, 3};
  for (size_t i = 0; i < epochs.size(); ++i) {
    ASSERT_TRUE((*run)->Step().ok());
    EXPECT_EQ((*run)->epoch(), epochs[i]);
    EXPECT_EQ((*run)->at_epoch_end(), i % 2 == 1);
  }
}

TEST_F(TrainingRunTest, ResumingNeedsTheSameJobAndData) {
  const v1::Dataset dataset = StoreCsv(LinearCsv(113));
  const v1::JobSpec spec = RegressionJob();
  auto run = Start(spec, dataset);
  ASSERT_TRUE(run.ok()) << run.status();
  for (int i = 0; i < 15; ++i) ASSERT_TRUE((*run)->Step().ok());
  const std::string manifest = (*run)->SaveCheckpoint()->manifest_sha256();
  EXPECT_TRUE(Start(spec, dataset, manifest).ok());

  auto refuse = [&](const v1::JobSpec& other, const v1::Dataset& data) {
    auto resumed = Start(other, data, manifest);
    EXPECT_EQ(resumed.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(resumed.status().message());
  };
  v1::JobSpec other = spec;
  other.mutable_training()->set_seed(1);
  EXPECT_THAT(refuse(other, dataset), HasSubstr("made with seed 0"));
  other = spec;
  other.mutable_training()->set_batch_size(5);
  EXPECT_THAT(refuse(other, dataset), HasSubstr("batch_size 10"));
  other = spec;
  other.mutable_training()->set_steps(14);
  EXPECT_THAT(refuse(other, dataset), HasSubstr("made with step 15"));
  other = spec;
  other.mutable_model()->add_layers()->mutable_dense()->set_units(1);
  EXPECT_THAT(refuse(other, dataset), HasSubstr("no tensor \"dense_1."));
  EXPECT_THAT(refuse(spec, StoreCsv(LinearCsv(43))),
              HasSubstr("dataset or its split is another one"));
  EXPECT_EQ(Start(spec, dataset, std::string(64, 'a')).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(TrainingRunTest, WeightsThatAreNotFiniteAreNeverSaved) {
  // The loss of the first step is finite, but its update is not.
  v1::JobSpec spec = RegressionJob();
  spec.mutable_training()->mutable_sgd()->set_learning_rate(1e38);
  auto run = Start(spec, StoreCsv("1000,1000,-1e9\n2000,1000,-1e9\n"
                                  "1000,3000,1e9\n4000,1000,1e9\n" +
                                  LinearCsv(30)));
  ASSERT_TRUE(run.ok()) << run.status();
  absl::Status status;
  while (status.ok()) {
    const uint64_t before = (*run)->step();
    status = (*run)->Step();
    if (!status.ok()) break;
    status = (*run)->SaveCheckpoint().status();
    ASSERT_LT(before, 10u);
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("dense_0."));
  EXPECT_THAT(status.message(), HasSubstr("hint: lower the learning rate"));
  EXPECT_FALSE((*run)->Step().ok());
}

TEST_F(TrainingRunTest, AFailedStartGivesAllMemoryBack) {
  const v1::Dataset dataset = StoreCsv(LinearCsv(113));
  EXPECT_FALSE(Start(RegressionJob(), dataset, std::string(64, 'a')).ok());
  EXPECT_EQ(allocator_.Statistics().allocated_bytes, 0u);
}

TEST_F(TrainingRunTest, AFailedSaveLeavesTheRunUsable) {
  auto run = Start(RegressionJob(), StoreCsv(LinearCsv(113)));
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_TRUE((*run)->Step().ok());
  std::filesystem::rename(blob_dir_, blob_dir_ + ".gone");
  EXPECT_FALSE((*run)->SaveCheckpoint().ok());
  std::filesystem::rename(blob_dir_ + ".gone", blob_dir_);
  EXPECT_TRUE((*run)->Step().ok());
  EXPECT_TRUE((*run)->SaveCheckpoint().ok());
}

v1::TrainingSpec FromText(const std::string& text) {
  v1::TrainingSpec training;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &training));
  return training;
}

// Steps to `end` and evaluates as the spec says.
void StepTo(TrainingRun& run, const v1::TrainingSpec& training, uint64_t end) {
  while (run.step() < end) {
    ASSERT_TRUE(run.Step().ok());
    const uint64_t every = training.evaluate_every_steps();
    if (every > 0 && run.step() % every == 0) {
      ASSERT_TRUE(run.Evaluate().ok());
    }
  }
}

TEST_F(TrainingRunTest, AnInterruptedRunEndsWithTheSameBits) {
  const v1::Dataset dataset = StoreCsv(LinearCsv(113));
  for (const char* text :
       {"sgd { learning_rate: 0.1 momentum: 0.9 }", "adam {}", "adamw {}",
        "rmsprop { momentum: 0.5 centered: true }",
        "adagrad { initial_accumulator: 0.1 lr_decay: 0.01 }", "lion {}",
        "adamax {}", "adam {} ema { decay: 0.9 }",
        "adamw {} accumulate_batches: 2 ema { decay: 0.9 } "
        "clip_gradient_norm: 1 groups { weights: '*.bias' "
        "learning_rate_factor: 3 weight_decay: 0.1 }",
        "adam {} accumulate_batches: 3 clip_gradient_value: 0.5",
        "sgd { learning_rate: 0.1 } accumulate_batches: 2 "
        "ema { decay: 0.8 } freeze: '*.bias' huber {}",
        "sgd { learning_rate: 0.5 } evaluate_every_steps: 3 "
        "keep_best_checkpoints: 2 schedule { plateau { patience: 0 } }"}) {
    SCOPED_TRACE(text);
    v1::JobSpec spec = RegressionJob();
    spec.mutable_training()->clear_optimizer();
    spec.mutable_training()->MergeFrom(FromText(text));
    spec.mutable_training()->set_steps(20);
    auto whole = Start(spec, dataset);
    ASSERT_TRUE(whole.ok()) << whole.status();
    StepTo(**whole, spec.training(), 20);
    auto first = Start(spec, dataset);
    ASSERT_TRUE(first.ok()) << first.status();
    StepTo(**first, spec.training(), 7);
    auto saved = (*first)->SaveCheckpoint();
    ASSERT_TRUE(saved.ok()) << saved.status();
    auto second = Start(spec, dataset, saved->manifest_sha256());
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_EQ((*second)->step(), 7u);
    StepTo(**second, spec.training(), 20);
    EXPECT_EQ((*second)->SaveCheckpoint()->manifest_sha256(),
              (*whole)->SaveCheckpoint()->manifest_sha256());
  }
}

TEST_F(TrainingRunTest, TellsTheLearningRateOfTheLastStep) {
  const v1::Dataset dataset = StoreCsv(LinearCsv(113));
  v1::JobSpec spec = RegressionJob();
  spec.mutable_training()->mutable_sgd()->set_learning_rate(0.5);
  spec.mutable_training()->mutable_schedule()->MergeFrom(
      FromText("schedule { warmup_steps: 2 exponential { gamma: 0.5 } }")
          .schedule());
  auto run = Start(spec, dataset);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_FALSE((*run)->learning_rate().has_value()) << "no step was made";
  for (const double rate : {0.25, 0.5, 0.5, 0.25}) {
    ASSERT_TRUE((*run)->Step().ok());
    EXPECT_EQ((*run)->learning_rate(), rate) << "step " << (*run)->step();
  }
  auto saved = (*run)->SaveCheckpoint();
  ASSERT_TRUE(saved.ok()) << saved.status();
  auto resumed = Start(spec, dataset, saved->manifest_sha256());
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_FALSE((*resumed)->learning_rate().has_value());
  ASSERT_TRUE((*resumed)->Step().ok());
  EXPECT_EQ((*resumed)->learning_rate(), 0.125);
}

TEST_F(TrainingRunTest, WithoutShufflingEveryEpochHasTheSameBatches) {
  const v1::Dataset dataset = StoreCsv(LinearCsv(113));
  v1::JobSpec spec = RegressionJob();
  // Too low to change a weight, so that a loss tells its batch.
  spec.mutable_training()->mutable_sgd()->set_learning_rate(1e-30);
  const auto losses = [&] {
    auto run = Start(spec, dataset);
    EXPECT_TRUE(run.ok()) << run.status();
    std::vector<double> found;
    for (int step = 0; step < 20; ++step) {  // two epochs
      EXPECT_TRUE((*run)->Step().ok());
      found.push_back(*(*run)->Loss());
    }
    return found;
  };
  const auto epoch = [](const std::vector<double>& all, size_t number) {
    const auto begin = all.begin() + static_cast<ptrdiff_t>(number) * 10;
    return std::vector<double>(begin, begin + 10);
  };
  const std::vector<double> shuffled = losses();
  EXPECT_NE(epoch(shuffled, 0), epoch(shuffled, 1));
  spec.mutable_data()->set_shuffle(true);
  EXPECT_EQ(losses(), shuffled) << "the default";
  spec.mutable_data()->set_shuffle(false);
  const std::vector<double> in_order = losses();
  EXPECT_EQ(epoch(in_order, 0), epoch(in_order, 1));
  EXPECT_NE(epoch(in_order, 0), epoch(shuffled, 0));
}

TEST_F(TrainingRunTest, AnInterruptedRunThatIsNotShuffledEndsWithTheSameBits) {
  const v1::Dataset dataset = StoreCsv(LinearCsv(113));
  v1::JobSpec spec = RegressionJob();
  spec.mutable_data()->set_shuffle(false);
  auto whole = Start(spec, dataset);
  auto first = Start(spec, dataset);
  ASSERT_TRUE(whole.ok() && first.ok());
  StepTo(**whole, spec.training(), 25);
  StepTo(**first, spec.training(), 13);  // within the second epoch
  auto saved = (*first)->SaveCheckpoint();
  ASSERT_TRUE(saved.ok()) << saved.status();
  auto second = Start(spec, dataset, saved->manifest_sha256());
  ASSERT_TRUE(second.ok()) << second.status();
  StepTo(**second, spec.training(), 25);
  EXPECT_EQ((*second)->SaveCheckpoint()->manifest_sha256(),
            (*whole)->SaveCheckpoint()->manifest_sha256());
}

TEST_F(TrainingRunTest, AccumulatedBatchesAreOneLargeBatch) {
  const v1::Dataset dataset = StoreCsv(LinearCsv(113));
  v1::JobSpec spec = RegressionJob();
  spec.mutable_training()->set_steps(20);
  spec.mutable_training()->set_batch_size(30);
  auto large = Start(spec, dataset);
  spec.mutable_training()->set_batch_size(10);
  spec.mutable_training()->set_accumulate_batches(3);
  auto small = Start(spec, dataset);
  ASSERT_TRUE(large.ok() && small.ok()) << small.status();
  EXPECT_EQ((*small)->steps_per_epoch(), 3u);
  EXPECT_EQ((*small)->rows_per_step(), 30u);
  while (!(*small)->done()) {
    ASSERT_TRUE((*large)->Step().ok() && (*small)->Step().ok());
    EXPECT_NEAR(*(*small)->Loss(), *(*large)->Loss(), 1e-5);
  }
}

// A linear model learns at once with a high rate. The bias, whose rate is 0,
// stays where it began.
TEST_F(TrainingRunTest, AGroupsRateIsThatOfItsWeightsAlone) {
  const v1::Dataset dataset = StoreCsv(LinearCsv(113));
  for (const char* text :
       {"sgd { learning_rate: 0.1 }", "adam {}", "adamw {}", "rmsprop {}",
        "adagrad {}", "lion {}", "adamax {}",
        "adam {} accumulate_batches: 2 clip_gradient_norm: 1",
        "adam {} precision: FP16 clip_gradient_value: 1",
        "adam {} ema { decay: 0.5 }"}) {
    SCOPED_TRACE(text);
    v1::JobSpec spec = RegressionJob();
    spec.mutable_training()->clear_optimizer();
    spec.mutable_training()->MergeFrom(FromText(text));
    spec.mutable_training()->MergeFrom(
        FromText("groups { weights: '*.bias' learning_rate_factor: 0 }"));
    spec.mutable_training()->set_steps(10);
    auto run = Start(spec, dataset);
    ASSERT_TRUE(run.ok()) << run.status();
    const auto numbers = [&run](absl::string_view name) {
      const auto weights = WeightView::Read((*run)->weights());
      const auto bytes = weights->Find(name);
      EXPECT_FALSE(bytes.empty()) << name;
      return std::vector<std::byte>(bytes.begin(), bytes.end());
    };
    const auto bias = numbers("dense_0.bias");
    const auto weight = numbers("dense_0.weight");
    StepTo(**run, spec.training(), 10);
    EXPECT_EQ(numbers("dense_0.bias"), bias);
    EXPECT_NE(numbers("dense_0.weight"), weight);
  }
}

TEST_F(TrainingRunTest, EvaluationsReadTheAverages) {
  // With a decay near 1, the averages stay near the initial weights.
  const v1::Dataset dataset = StoreCsv(LinearCsv(113));
  v1::JobSpec spec = RegressionJob();
  spec.mutable_training()->mutable_ema()->set_decay(0.999999);
  auto run = Start(spec, dataset);
  ASSERT_TRUE(run.ok()) << run.status();
  const double before = (*run)->Evaluate()->loss();
  for (int i = 0; i < 30; ++i) ASSERT_TRUE((*run)->Step().ok());
  EXPECT_NEAR((*run)->Evaluate()->loss(), before, 1e-3 * before);
  EXPECT_LT(*(*run)->Loss(), 0.5 * before);
}

class ValidationSetTest : public TrainingRunTest {
 protected:
  static v1::JobSpec Job() {
    v1::JobSpec spec = RegressionJob();
    spec.mutable_data()->clear_held_out();
    spec.mutable_data()->set_dataset("train");
    spec.mutable_data()->set_validation("val");
    return spec;
  }
  absl::StatusOr<std::unique_ptr<TrainingRun>> StartWith(
      const v1::JobSpec& spec, const std::string& validation) {
    auto run =
        TrainingRun::Create(Device(), {.job_id = 3,
                                       .attempt = 1,
                                       .spec = spec,
                                       .dataset = StoreCsv(LinearCsv(113)),
                                       .validation = StoreCsv(validation)});
    if (!run.ok()) return run.status();
    return *std::move(run);
  }
};

TEST_F(ValidationSetTest, ItsRowsAreEvaluatedAndAllOthersAreTrained) {
  // The rows of the other set have y = -1 everywhere.
  auto run = StartWith(Job(), "0,0,-1\n0.5,0.5,-1\n");
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ((*run)->steps_per_epoch(), 11u) << "113 rows in batches of 10";
  while (!(*run)->done()) ASSERT_TRUE((*run)->Step().ok());
  const auto evaluation = (*run)->Evaluate();
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_EQ(evaluation->rows(), 2u);
  // The line that was learned gives 1 and 0.5.
  EXPECT_NEAR(evaluation->loss(), (4 + 2.25) / 2, 0.05);
}

TEST_F(ValidationSetTest, StoppingAndBestCheckpointsGoByIt) {
  v1::JobSpec spec = Job();
  spec.mutable_training()->MergeFrom(
      FromText("early_stopping { patience: 2 } evaluate_every_steps: 1 "
               "keep_best_checkpoints: 1 ema { decay: 0.1 }"));
  // The better the line, the worse the validation.
  auto run = StartWith(spec, "0,1,9\n1,1,9\n");
  ASSERT_TRUE(run.ok()) << run.status();
  while (!(*run)->done()) StepTo(**run, spec.training(), (*run)->step() + 1);
  EXPECT_TRUE((*run)->stopped_early());
  EXPECT_LT((*run)->step(), (*run)->total_steps());
  EXPECT_FALSE((*run)->newest_evaluation_is_best());
}

TEST_F(ValidationSetTest, ScalingKnowsTheTrainedRowsOnly) {
  v1::JobSpec spec = Job();
  spec.mutable_data()->mutable_scaling()->mutable_standardize();
  std::vector<std::vector<std::byte>> scales;
  for (const char* rows : {"0,0,-1\n", "1000,-1000,-1\n"}) {
    auto run = StartWith(spec, rows);
    ASSERT_TRUE(run.ok()) << run.status();
    const auto weights = WeightView::Read((*run)->weights());
    const auto bytes = weights->Find("input.scale");
    scales.emplace_back(bytes.begin(), bytes.end());
  }
  EXPECT_EQ(scales[0], scales[1]);
}

TEST_F(ValidationSetTest, RowsOfAnotherFormAreRefused) {
  EXPECT_THAT(StartWith(Job(), "1,2,3,4\n").status().message(),
              HasSubstr("features of a row of dataset \"val\" have shape [3], "
                        "but those of \"train\" have shape [2]"));
  v1::JobSpec spec = Job();
  spec.mutable_data()->mutable_held_out()->set_last(13);
  EXPECT_THAT(StartWith(spec, "0,0,-1\n").status().message(),
              HasSubstr("data.held_out and data.validation are both set"));
}

TEST_F(ValidationSetTest, ItsLabelsAreCheckedToo) {
  v1::JobSpec spec = Job();
  spec.mutable_model()->mutable_layers(0)->mutable_dense()->set_units(3);
  spec.mutable_training()->mutable_cross_entropy();
  std::string train, val;
  for (int i = 0; i < 30; ++i) train += "1,2," + std::to_string(i % 3) + "\n";
  const auto start = [&] {
    return TrainingRun::Create(Device(), {.job_id = 3,
                                          .attempt = 1,
                                          .spec = spec,
                                          .dataset = StoreCsv(train),
                                          .validation = StoreCsv(val)})
        .status();
  };
  val = "1,2,3\n1,2,0\n";
  EXPECT_THAT(start().message(),
              HasSubstr("data.validation: the dataset has labels 0 to 3"));
  val = "1,2,2\n";
  EXPECT_TRUE(start().ok()) << start();
}

TEST_F(TrainingRunTest, TheCheckpointKnowsTheLossOfItsStep) {
  v1::JobSpec spec = RegressionJob();
  spec.mutable_training()->set_keep_best_checkpoints(1);
  spec.mutable_training()->set_evaluate_every_steps(5);
  auto run = Start(spec, StoreCsv(LinearCsv(113)));
  ASSERT_TRUE(run.ok()) << run.status();
  StepTo(**run, spec.training(), 5);
  EXPECT_EQ((*run)->evaluated_step(), 5u);
  EXPECT_TRUE((*run)->newest_evaluation_is_best());
  EXPECT_TRUE((*run)->SaveCheckpoint()->has_held_out_loss());
  ASSERT_TRUE((*run)->Step().ok());
  EXPECT_FALSE((*run)->SaveCheckpoint()->has_held_out_loss());
}

TEST_F(TrainingRunTest, EarlyStoppingEndsTheRun) {
  v1::JobSpec spec = RegressionJob();
  spec.mutable_training()->mutable_early_stopping()->set_patience(2);
  spec.mutable_training()->mutable_early_stopping()->set_min_delta(1e9);
  spec.mutable_training()->set_evaluate_every_steps(1);
  auto run = Start(spec, StoreCsv(LinearCsv(113)));
  ASSERT_TRUE(run.ok()) << run.status();
  StepTo(**run, spec.training(), 2);
  EXPECT_FALSE((*run)->done());
  StepTo(**run, spec.training(), 3);
  EXPECT_TRUE((*run)->stopped_early());
  EXPECT_TRUE((*run)->done());
}

TEST_F(TrainingRunTest, TopKAccuracyIsReportedWhenAskedFor) {
  Philox random(5);
  std::string text;
  for (int i = 0; i < 60; ++i) {
    const double x = random.NextFloat();
    text += std::to_string(x) + "," + std::to_string(i % 3) + "\n";
  }
  v1::JobSpec spec = RegressionJob();
  spec.mutable_model()->set_input_shape(0, 1);
  spec.mutable_model()->mutable_layers(0)->mutable_dense()->set_units(3);
  spec.mutable_training()->mutable_cross_entropy()->set_ignore_label(1);
  spec.mutable_training()->set_top_k(3);
  auto run = Start(spec, StoreCsv(text));
  ASSERT_TRUE(run.ok()) << run.status();
  auto evaluation = (*run)->Evaluate();
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_EQ(evaluation->top_k_accuracy(), 1);
  EXPECT_LE(evaluation->accuracy(), 1);
}

}  // namespace
}  // namespace gpupool::engine
