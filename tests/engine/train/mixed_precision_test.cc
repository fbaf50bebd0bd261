// Training in 16-bit arithmetic, from the job to the weights: its loss is that
// of float32 but for a little, overflows are skipped, and a resumed job goes on
// as if nothing had happened.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/autodiff/loss_scaling.h"
#include "engine/base/philox.h"
#include "engine/runtime/executor.h"
#include "engine/train/checkpoint.h"
#include "engine/train/initial_weights.h"
#include "engine/train/programs.h"
#include "engine/train/training_run.h"
#include "tests/engine/train/run_fixture.h"
#include "tests/engine/train/tiny_transformer.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

constexpr int kSide = 8;
constexpr double kCurveTolerance = 0.02;

class MixedPrecisionTest : public RunFixture {
 protected:
  // Images of noise with a bright bar: where it lies is the class.
  static std::string BarsCsv(int rows, double brightness = 1) {
    Philox random(5);
    std::string text;
    for (int row = 0; row < rows; ++row) {
      const int bar = static_cast<int>(random.NextBelow(4));
      for (int i = 0; i < kSide * kSide; ++i) {
        const double lit = i % kSide / 2 == bar ? brightness : 0;
        absl::StrAppend(&text, lit + 0.5 * random.NextFloat(), ",");
      }
      absl::StrAppend(&text, bar, "\n");
    }
    return text;
  }

  static v1::JobSpec ConvolutionJob(const std::string& training) {
    v1::JobSpec spec;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        R"(model {
             input_shape: [1, 8, 8]
             layers { conv2d { filters: 16 kernel: [3] padding: [1] } }
             layers { batch_norm {} } layers { relu {} }
             layers { conv2d { filters: 32 kernel: [3] padding: [1] } }
             layers { batch_norm {} } layers { relu {} }
             layers { max_pool { kernel: [2] } } layers { flatten {} }
             layers { dense { units: 32 } } layers { relu {} }
             layers { dense { units: 4 } }
           }
           training {
             cross_entropy {} sgd { learning_rate: 0.005 }
             batch_size: 16 steps: 60 seed: 3
           }
           data { held_out { last: 32 } })",
        &spec));
    v1::TrainingSpec change;
    EXPECT_TRUE(
        google::protobuf::TextFormat::ParseFromString(training, &change));
    spec.mutable_training()->MergeFrom(change);
    return spec;
  }

  std::unique_ptr<TrainingRun> Start(const v1::JobSpec& spec,
                                     const v1::Dataset& dataset,
                                     const std::string& resume = "") {
    auto run =
        TrainingRun::Impl::Create(Device(), {.job_id = 3,
                                             .attempt = 1,
                                             .spec = spec,
                                             .dataset = dataset,
                                             .resume_manifest_sha256 = resume});
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? std::make_unique<TrainingRun>(*std::move(run)) : nullptr;
  }

  static std::vector<double> Losses(TrainingRun& run, int steps) {
    std::vector<double> losses;
    for (int i = 0; i < steps; ++i) {
      const absl::Status status = run.Step();
      EXPECT_TRUE(status.ok()) << status;
      if (!status.ok()) return losses;
      losses.push_back(*run.Loss());
    }
    return losses;
  }

  // The name of a checkpoint's file with that role: its bytes' digest.
  std::string FileOf(TrainingRun& run, absl::string_view role) {
    const auto saved = run.SaveCheckpoint();
    EXPECT_TRUE(saved.ok()) << saved.status();
    const auto manifest = ReadManifest(blob_dir_, saved->manifest_sha256());
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    return manifest->FindFile(role)->sha256;
  }
};

// Step by step, while there is something to learn.
void ExpectSameCurve(const std::vector<double>& got,
                     const std::vector<double>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    worst = std::max(worst, std::abs(got[i] - wanted[i]) / wanted[i]);
  }
  EXPECT_LE(worst, kCurveTolerance);
  EXPECT_LT(wanted.back(), 0.5 * wanted[0]) << "nothing was learnt";
}

TEST_F(MixedPrecisionTest, AConvolutionalNetLearnsAsInFloat32) {
  const v1::Dataset dataset = StoreCsv(BarsCsv(160));
  const auto wanted = Losses(*Start(ConvolutionJob(""), dataset), 60);
  for (const char* precision : {"precision: BF16", "precision: FP16"}) {
    SCOPED_TRACE(precision);
    auto run = Start(ConvolutionJob(precision), dataset);
    ExpectSameCurve(Losses(*run, 60), wanted);
    EXPECT_EQ(run->memory().planned_peak_bytes(),
              run->memory().measured_peak_bytes());
  }
}

TEST_F(MixedPrecisionTest, HeldOutRowsAreEvaluatedInTheSamePrecision) {
  const v1::Dataset dataset = StoreCsv(BarsCsv(160));
  auto wanted = Start(ConvolutionJob(""), dataset);
  auto got = Start(ConvolutionJob("precision: BF16"), dataset);
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
    const auto wanted = Losses(*Start(ConvolutionJob(options), dataset), 20);
    const auto got =
        Losses(*Start(ConvolutionJob(absl::StrCat(options, " precision: FP16")),
                      dataset),
               20);
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], wanted[i], 0.02 * wanted[0]) << "step " << i + 1;
    }
  }
}

TEST_F(MixedPrecisionTest, AnOverflowHalvesTheScaleAndSkipsTheStep) {
  const v1::Dataset dataset = StoreCsv(BarsCsv(160));
  auto run = Start(ConvolutionJob("precision: FP16 "
                                  "loss_scaling { initial: 1099511627776 }"),
                   dataset);
  const std::string before = FileOf(*run, "weights");
  int skipped = 0;
  for (double scale = 0x1p39; scale > 0x1p20; scale /= 2) {
    ASSERT_TRUE(run->Step().ok());
    if (run->skipped_steps() == static_cast<uint64_t>(skipped)) break;
    ++skipped;
    EXPECT_EQ(run->loss_scale(), scale);
    // Running statistics were updated, trained weights were not.
    EXPECT_TRUE(std::isfinite(*run->Loss()));
  }
  EXPECT_GT(skipped, 5);
  EXPECT_LT(skipped, 20);
  EXPECT_NE(FileOf(*run, "weights"), before);
}

TEST_F(MixedPrecisionTest, ASkippedStepLeavesTheWeightsAsTheyAre) {
  v1::JobSpec spec = ConvolutionJob(
      "precision: FP16 loss_scaling { initial: 1099511627776 } "
      "freeze: '*.running_*'");
  auto run = Start(spec, StoreCsv(BarsCsv(160)));
  const std::string before = FileOf(*run, "weights");
  ASSERT_TRUE(run->Step().ok());
  EXPECT_EQ(run->skipped_steps(), 1u);
  EXPECT_EQ(FileOf(*run, "weights"), before);
}

TEST_F(MixedPrecisionTest, AScaleThatFallsForEverFailsTheJob) {
  // The first convolution leaves float16 in the forward pass already.
  auto run = Start(ConvolutionJob("precision: FP16 "
                                  "loss_scaling { initial: 1 }"),
                   StoreCsv(BarsCsv(160, 1e7)));
  absl::Status status;
  while (status.ok() && run->step() < 60) status = run->Step();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(status.message(), HasSubstr("at step 15 of 60"));
  EXPECT_THAT(status.message(), HasSubstr("precision: bf16"));
  EXPECT_FALSE(run->SaveCheckpoint().ok());
}

TEST_F(MixedPrecisionTest, ResumingKeepsScaleGrowthAndSkippedSteps) {
  const v1::Dataset dataset = StoreCsv(BarsCsv(160));
  const v1::JobSpec spec = ConvolutionJob(
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
  auto run = Start(ConvolutionJob("precision: BF16"), StoreCsv(BarsCsv(160)));
  Losses(*run, 1);
  EXPECT_EQ(run->loss_scale(), 0);
  EXPECT_EQ(run->skipped_steps(), 0u);
}

TEST_F(MixedPrecisionTest, ActivationsTakeHalfTheBytes) {
  const auto planned = [&](const char* precision) {
    v1::JobSpec spec = ConvolutionJob(precision);
    spec.mutable_training()->set_batch_size(256);
    const auto source = *ModelSource::Open(spec.model(), "");
    auto programs = CompileTraining(
        *source, spec, {1000, {64}, {.whole = true, .maximum = 3}}, &backend_);
    EXPECT_TRUE(programs.ok()) << programs.status();
    return BytesOf(*programs).activations;
  };
  const auto whole = static_cast<double>(planned(""));
  EXPECT_LT(static_cast<double>(planned("precision: BF16")), 0.65 * whole);
}

// A program at work, for models that are no files.
class TransformerRun {
 public:
  TransformerRun(const ModelSource& source, const v1::JobSpec& spec,
                 const testing::TransformerSizes& sizes, CpuBackend* backend,
                 CachingAllocator* allocator)
      : sizes_(sizes), batch_(spec.training().batch_size()) {
    const DataFacts facts{
        1000,
        {sizes.tokens},
        {.shape = {sizes.tokens},
         .whole = true,
         .maximum = static_cast<double>(sizes.vocabulary - 1)}};
    auto programs = CompileTraining(source, spec, facts, backend);
    EXPECT_TRUE(programs.ok()) << programs.status();
    activations_ = BytesOf(*programs).activations;
    weights_.emplace(
        *WeightStore::Create(programs->layout, "transformer", allocator));
    EXPECT_TRUE(
        SetInitialWeights(source, programs->persistents, 1, *weights_).ok());
    const uint64_t arena_bytes = ArenaBytesOf(*programs);
    arena_ = *allocator->Allocate(arena_bytes, {"transformer", "arena"});
    executor_ = *Executor::Create(std::move(programs->train), *weights_,
                                  absl::MakeSpan(arena_.data(), arena_bytes),
                                  "transformer", allocator);
    EXPECT_TRUE(executor_->Load().ok());
  }

  // The next token is three times the present one and one more, or now and
  // then another.
  double Step() {
    ++step_;
    std::vector<int64_t> tokens, labels;
    for (int64_t row = 0; row < batch_; ++row) {
      auto token = static_cast<int64_t>(
          random_.NextBelow(static_cast<uint32_t>(sizes_.vocabulary)));
      for (int64_t i = 0; i < sizes_.tokens; ++i) {
        tokens.push_back(token);
        token = (3 * token + 1) % sizes_.vocabulary;
        labels.push_back(token);
      }
    }
    Set("tokens", tokens.data(), tokens.size());
    Set("labels", labels.data(), labels.size());
    const double rate = 0.01;
    Set("learning_rate", &rate, 1);
    Set("step", &step_, 1);
    EXPECT_TRUE(executor_->Run().ok());
    float loss = 0;
    std::memcpy(&loss, executor_->output("loss").data(), sizeof(loss));
    return double{loss};
  }

  uint64_t activations() const { return activations_; }

 private:
  template <typename T>
  void Set(absl::string_view name, const T* numbers, size_t count) {
    const absl::Span<std::byte> to = executor_->input(name);
    ASSERT_EQ(to.size(), count * sizeof(T)) << name;
    std::memcpy(to.data(), numbers, to.size());
  }

  const testing::TransformerSizes sizes_;
  const int64_t batch_;
  Philox random_{9};
  int64_t step_ = 0;
  uint64_t activations_ = 0;
  std::optional<WeightStore> weights_;
  Allocation arena_;
  std::unique_ptr<Executor> executor_;
};

class MixedTransformerTest : public RunFixture {
 protected:
  TransformerRun Start(v1::Precision precision, uint32_t batch = 8) {
    v1::JobSpec spec;
    v1::TrainingSpec& training = *spec.mutable_training();
    training.mutable_cross_entropy();
    training.mutable_adam();
    training.set_batch_size(batch);
    training.set_steps(60);
    training.set_precision(precision);
    return {*testing::TinyTransformer(sizes_), spec, sizes_, &backend_,
            &allocator_};
  }
  std::vector<double> Losses(v1::Precision precision) {
    TransformerRun run = Start(precision);
    std::vector<double> losses;
    for (int i = 0; i < 60; ++i) losses.push_back(run.Step());
    return losses;
  }

  const testing::TransformerSizes sizes_;
};

TEST_F(MixedTransformerTest, LearnsAsInFloat32) {
  const std::vector<double> wanted = Losses(v1::HIGHEST);
  for (const v1::Precision precision : {v1::BF16, v1::FP16}) {
    SCOPED_TRACE(v1::Precision_Name(precision));
    ExpectSameCurve(Losses(precision), wanted);
  }
}

TEST_F(MixedTransformerTest, ActivationsTakeHalfTheBytes) {
  const auto whole = static_cast<double>(Start(v1::HIGHEST, 64).activations());
  EXPECT_LT(static_cast<double>(Start(v1::BF16, 64).activations()),
            0.65 * whole);
}

}  // namespace
}  // namespace gpupool::engine
