// Training in 16-bit arithmetic, from the job to the weights: its loss is close
// to that of float32, overflows are skipped, and a resumed job continues as if
// it had not been interrupted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/train/checkpoint.h"
#include "engine/train/programs.h"
#include "engine/train/training_run.h"
#include "tests/engine/train/bars_job.h"
#include "tests/engine/train/next_token.h"
#include "tests/engine/train/run_fixture.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;
using testing::NextTokenTraining;

class MixedPrecisionTest : public RunFixture {
 protected:
  std::unique_ptr<TrainingRun> Start(const v1::JobSpec& spec,
                                     const v1::Dataset& dataset,
                                     const std::string& resume = "") {
    auto run =
        TrainingRun::Create(Device(), {.job_id = 3,
                                       .attempt = 1,
                                       .spec = spec,
                                       .dataset = dataset,
                                       .resume_manifest_sha256 = resume});
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? *std::move(run) : nullptr;
  }

  // Returns the name of a checkpoint's file with that role: the digest of its
  // bytes.
  std::string FileOf(TrainingRun& run, absl::string_view role) {
    const auto saved = run.SaveCheckpoint();
    EXPECT_TRUE(saved.ok()) << saved.status();
    const auto manifest = ReadManifest(blob_dir_, saved->manifest_sha256());
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    return manifest->FindFile(role)->sha256;
  }
};

TEST_F(MixedPrecisionTest, AConvolutionalNetLearnsAsInFloat32) {
  const v1::Dataset dataset = StoreCsv(BarsCsv(160));
  const auto wanted = Losses(*Start(BarsJob(""), dataset), 60);
  for (const char* precision : {"precision: BF16", "precision: FP16"}) {
    SCOPED_TRACE(precision);
    auto run = Start(BarsJob(precision), dataset);
    ExpectSameCurve(Losses(*run, 60), wanted);
    EXPECT_EQ(run->memory().planned_peak_bytes(),
              run->memory().measured_peak_bytes());
  }
}

TEST_F(MixedPrecisionTest, HeldOutRowsAreEvaluatedInTheSamePrecision) {
  const v1::Dataset dataset = StoreCsv(BarsCsv(160));
  auto wanted = Start(BarsJob(""), dataset);
  auto got = Start(BarsJob("precision: BF16"), dataset);
  Losses(*wanted, 30);
  Losses(*got, 30);
  const double loss = wanted->Evaluate()->loss();
  EXPECT_NEAR(got->Evaluate()->loss(), loss, 0.02);
  EXPECT_NE(got->Evaluate()->loss(), loss);
}

TEST_F(MixedPrecisionTest, AccumulationAndClippingDoNotSeeTheScale) {
  const v1::Dataset dataset = StoreCsv(BarsCsv(160));
  for (const char* options :
       {"accumulate_batches: 2", "clip_gradient_norm: 0.2",
        "clip_gradient_value: 0.01",
        "accumulate_batches: 2 clip_gradient_norm: 0.2 "
        "clip_gradient_value: 0.01 ema { decay: 0.9 }"}) {
    SCOPED_TRACE(options);
    const auto wanted = Losses(*Start(BarsJob(options), dataset), 20);
    const auto got = Losses(
        *Start(BarsJob(absl::StrCat(options, " precision: FP16")), dataset),
        20);
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], wanted[i], 0.02 * wanted[0]) << "step " << i + 1;
    }
  }
}

TEST_F(MixedPrecisionTest, AnOverflowHalvesTheScaleAndSkipsTheStep) {
  const v1::Dataset dataset = StoreCsv(BarsCsv(160));
  auto run = Start(BarsJob("precision: FP16 "
                           "loss_scaling { initial: 1099511627776 }"),
                   dataset);
  const std::string before = FileOf(*run, "weights");
  int skipped = 0;
  for (double scale = 0x1p39; scale > 0x1p20; scale /= 2) {
    ASSERT_TRUE(run->Step().ok());
    if (run->skipped_steps() == static_cast<uint64_t>(skipped)) break;
    ++skipped;
    EXPECT_EQ(run->loss_scale(), scale);
    // Running statistics were updated, but trained weights were not.
    EXPECT_TRUE(std::isfinite(*run->Loss()));
  }
  EXPECT_GT(skipped, 5);
  EXPECT_LT(skipped, 20);
  EXPECT_NE(FileOf(*run, "weights"), before);
}

TEST_F(MixedPrecisionTest, ASkippedStepLeavesTheWeightsAsTheyAre) {
  v1::JobSpec spec = BarsJob(
      "precision: FP16 loss_scaling { initial: 1099511627776 } "
      "freeze: '*.running_*'");
  auto run = Start(spec, StoreCsv(BarsCsv(160)));
  const std::string before = FileOf(*run, "weights");
  ASSERT_TRUE(run->Step().ok());
  EXPECT_EQ(run->skipped_steps(), 1u);
  EXPECT_EQ(FileOf(*run, "weights"), before);
}

TEST_F(MixedPrecisionTest, AScaleThatFallsForEverFailsTheJob) {
  // The first convolution already exceeds float16 in the forward pass.
  auto run = Start(BarsJob("precision: FP16 "
                           "loss_scaling { initial: 1 }"),
                   StoreCsv(BarsCsv(160, 1e7)));
  absl::Status status;
  while (status.ok() && run->step() < 60) status = run->Step();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(status.message(), HasSubstr("at step 15 of 60"));
  EXPECT_THAT(status.message(), HasSubstr("precision: bf16"));
  EXPECT_FALSE(run->SaveCheckpoint().ok());
}

// The scale of 2^40 overflows in more than five steps, as above.
TEST_F(MixedPrecisionTest, AJobThatSkippedAllItsStepsFails) {
  v1::JobSpec spec =
      BarsJob("precision: FP16 loss_scaling { initial: 1099511627776 }");
  spec.mutable_training()->set_steps(3);
  auto run = Start(spec, StoreCsv(BarsCsv(160)));
  ASSERT_TRUE(run->Step().ok());
  ASSERT_TRUE(run->Step().ok());
  const absl::Status last = run->Step();
  EXPECT_EQ(last.code(), absl::StatusCode::kInvalidArgument) << last;
  EXPECT_THAT(last.message(), HasSubstr("all 3 steps were skipped"));
  EXPECT_THAT(last.message(), HasSubstr("precision: bf16"));
}

TEST_F(MixedPrecisionTest, AJobThatStopsEarlyAfterSkippedStepsOnlyFails) {
  v1::JobSpec spec = BarsJob(
      "precision: FP16 loss_scaling { initial: 1099511627776 } "
      "evaluate_every_steps: 1 "
      "early_stopping { patience: 1 min_delta: 1000 }");
  spec.mutable_data()->mutable_held_out()->set_every(4);
  auto run = Start(spec, StoreCsv(BarsCsv(160)));
  ASSERT_TRUE(run->Evaluate().ok());
  ASSERT_TRUE(run->Step().ok());
  ASSERT_EQ(run->skipped_steps(), 1u);
  const auto evaluation = run->Evaluate();
  EXPECT_EQ(evaluation.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(evaluation.status().message(),
              HasSubstr("all 1 steps were skipped"));
  EXPECT_FALSE(run->SaveCheckpoint().ok());
}

TEST_F(MixedPrecisionTest, AJobWithOneStepThatCountsSucceeds) {
  v1::JobSpec spec =
      BarsJob("precision: FP16 loss_scaling { initial: 1099511627776 }");
  spec.mutable_training()->set_steps(30);
  auto run = Start(spec, StoreCsv(BarsCsv(160)));
  Losses(*run, 30);
  EXPECT_GT(run->skipped_steps(), 0u);
  EXPECT_LT(run->skipped_steps(), 30u);
}

TEST_F(MixedPrecisionTest, ResumingKeepsScaleGrowthAndSkippedSteps) {
  const v1::Dataset dataset = StoreCsv(BarsCsv(160));
  const v1::JobSpec spec = BarsJob(
      "precision: FP16 "
      "loss_scaling { initial: 1099511627776 growth_interval: 7 }");
  auto whole = Start(spec, dataset);
  Losses(*whole, 25);
  auto first = Start(spec, dataset);
  Losses(*first, 13);
  auto second =
      Start(spec, dataset, first->SaveCheckpoint()->manifest_sha256());
  EXPECT_EQ(second->skipped_steps(), first->skipped_steps());
  Losses(*second, 12);
  EXPECT_EQ(second->loss_scale(), whole->loss_scale());
  EXPECT_EQ(second->skipped_steps(), whole->skipped_steps());
  EXPECT_GT(whole->skipped_steps(), 0u);
  EXPECT_EQ(FileOf(*second, "weights"), FileOf(*whole, "weights"));
  EXPECT_EQ(FileOf(*second, "optimizer"), FileOf(*whole, "optimizer"));
}

TEST_F(MixedPrecisionTest, OnlyFloat16ReportsAScale) {
  auto run = Start(BarsJob("precision: BF16"), StoreCsv(BarsCsv(160)));
  Losses(*run, 1);
  EXPECT_EQ(run->loss_scale(), 0);
  EXPECT_EQ(run->skipped_steps(), 0u);
}

TEST_F(MixedPrecisionTest, ActivationsTakeHalfTheBytes) {
  const auto planned = [&](const char* precision) {
    v1::JobSpec spec = BarsJob(precision);
    spec.mutable_training()->set_batch_size(256);
    const auto source = *ModelSource::Open(spec.model(), "");
    auto programs = CompileTraining(*source, spec,
                                    {1000, {64}, {.whole = true, .maximum = 3}},
                                    {&backend_});
    EXPECT_TRUE(programs.ok()) << programs.status();
    return BytesOf(*programs).activations;
  };
  const auto whole = static_cast<double>(planned(""));
  EXPECT_LT(static_cast<double>(planned("precision: BF16")), 0.65 * whole);
}

class MixedTransformerTest : public RunFixture {
 protected:
  std::vector<double> Losses(v1::Precision precision) {
    return Start(precision).Losses(60);
  }
  NextTokenTraining Start(v1::Precision precision, uint32_t batch = 8) {
    return {{&backend_, &allocator_}, precision, batch};
  }
  double Activations(v1::Precision precision) {
    return static_cast<double>(
        Start(precision, 64).program().bytes().activations);
  }
};

TEST_F(MixedTransformerTest, LearnsAsInFloat32) {
  const std::vector<double> wanted = Losses(v1::HIGHEST);
  for (const v1::Precision precision : {v1::BF16, v1::FP16}) {
    SCOPED_TRACE(v1::Precision_Name(precision));
    ExpectSameCurve(Losses(precision), wanted);
  }
}

TEST_F(MixedTransformerTest, ActivationsTakeHalfTheBytes) {
  EXPECT_LT(Activations(v1::BF16), 0.65 * Activations(v1::HIGHEST));
}

}  // namespace
}  // namespace gpupool::engine
