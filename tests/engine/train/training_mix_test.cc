// Trains on batches that training.mix mixes.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/philox.h"
#include "engine/runtime/weight_view.h"
#include "engine/train/input/batch_mix.h"
#include "engine/train/training_run.h"
#include "tests/engine/data/files.h"
#include "tests/engine/train/run_fixture.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

constexpr int kSide = 4;
constexpr char kBoth[] =
    "mix { mixup_alpha: 0.4 cutmix_alpha: 1 probability: 0.8 }";
constexpr char kFlip[] = "transforms { random_horizontal_flip {} }";

class TrainingMixTest : public RunFixture {
 protected:
  // Stores images of kSide x kSide numbers, each with one of three classes.
  v1::Dataset StoreImages(int rows) {
    Philox random(11);
    std::string text;
    for (int i = 0; i < rows; ++i) {
      for (int k = 0; k < kSide * kSide; ++k) {
        absl::StrAppend(&text, random.NextFloat(), ",");
      }
      absl::StrAppend(&text, i % 3, "\n");
    }
    return StoreCsv(text);
  }

  // Returns a job of four epochs with batches of 6 rows.
  static v1::JobSpec Job(const std::string& data, const std::string& training) {
    v1::JobSpec spec, change;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        absl::StrCat("model { input_shape: [1, 4, 4] layers { conv2d { "
                     "filters: 3 kernel: 3 } } layers { flatten {} } layers { "
                     "dense { units: 3 } } } data { ",
                     data,
                     " } training { cross_entropy {} adam { learning_rate: "
                     "0.01 } batch_size: 6 epochs: 4 seed: 4 }"),
        &spec));
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        absl::StrCat("training { ", training, " }"), &change));
    spec.MergeFrom(change);
    return spec;
  }

  // Makes all steps. Returns their losses.
  static std::vector<double> Losses(TrainingRun& run) {
    std::vector<double> losses;
    while (run.step() < run.total_steps()) {
      const absl::Status made = run.Step();
      EXPECT_TRUE(made.ok()) << made;
      if (!made.ok()) break;
      losses.push_back(*run.Loss());
    }
    return losses;
  }

  static std::vector<float> WeightsOf(TrainingRun& run,
                                      const std::string& name) {
    const auto view = WeightView::Read(run.weights());
    EXPECT_TRUE(view.ok()) << view.status();
    for (const WeightEntry& entry : view->layout().entries()) {
      if (entry.name != name) continue;
      const absl::Span<const std::byte> bytes = view->bytes_of(entry);
      const auto* numbers = reinterpret_cast<const float*>(bytes.data());
      return {numbers, numbers + bytes.size() / sizeof(float)};
    }
    ADD_FAILURE() << "no weight " << name;
    return {};
  }
};

// Returns the cross entropy of one row of a linear model.
double CrossEntropyOf(const std::vector<double>& scores, int label) {
  double sum = 0;
  for (const double score : scores) sum += std::exp(score);
  return std::log(sum) - scores[static_cast<size_t>(label)];
}

TEST_F(TrainingMixTest, TheLossIsThatOfTheMixedBatch) {
  // Two numbers and a class a row; a linear model and no shuffling.
  const double x[4][2] = {{1, 2}, {-1, 0.5}, {0.25, -2}, {3, 1}};
  const int y[4] = {0, 2, 1, 2};
  std::string text;
  for (int i = 0; i < 4; ++i) {
    absl::StrAppend(&text, x[i][0], ",", x[i][1], ",", y[i], "\n");
  }
  v1::JobSpec spec;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "model { input_shape: 2 layers { dense { units: 3 bias: false } } } "
      "data { shuffle: false } training { cross_entropy {} sgd { "
      "learning_rate: 0.1 } batch_size: 4 epochs: 3 seed: 9 mix { "
      "mixup_alpha: 1 } }",
      &spec));
  auto run = StartRun(spec, StoreCsv(text));
  ASSERT_TRUE(run.ok()) << run.status();
  for (uint64_t step = 0; step < 3; ++step) {
    const std::vector<float> weights = WeightsOf(**run, "dense_0.weight");
    ASSERT_EQ(weights.size(), 6u);
    const BatchMix mix =
        DrawMix({.mix = spec.training().mix(), .seed = spec.training().seed()},
                step, 4);
    const auto score = [&](int row, size_t k) {
      double sum = 0;
      for (size_t j = 0; j < 2; ++j) {
        sum += x[row][j] * double{weights[k * 2 + j]};
      }
      return sum;
    };
    double wanted = 0;
    for (int i = 0; i < 4; ++i) {
      const int other = static_cast<int>(mix.partners[static_cast<size_t>(i)]);
      const double lambda = double{mix.lambda};
      std::vector<double> scores;
      for (size_t k = 0; k < 3; ++k) {
        scores.push_back(lambda * score(i, k) + (1 - lambda) * score(other, k));
      }
      wanted += (lambda * CrossEntropyOf(scores, y[i]) +
                 (1 - lambda) * CrossEntropyOf(scores, y[other])) /
                4;
    }
    ASSERT_TRUE((*run)->Step().ok());
    EXPECT_NEAR(*(*run)->Loss(), wanted, 1e-5) << step;
  }
}

TEST_F(TrainingMixTest, AnyNumberOfWorkersGivesTheSameBits) {
  // The last batch of an epoch has 4 rows, and then one row.
  for (const int rows : {16, 13}) {
    const v1::Dataset dataset = StoreImages(rows);
    for (const char* data : {"drop_last: false ", "drop_last: true "}) {
      auto plain = StartRun(Job(absl::StrCat(data, kFlip), kBoth), dataset);
      ASSERT_TRUE(plain.ok()) << plain.status();
      const std::vector<double> losses = Losses(**plain);
      const std::string wanted = Saved(**plain);
      for (const char* loader :
           {"workers: 1 prefetch: 1", "workers: 2", "workers: 3 prefetch: 9"}) {
        SCOPED_TRACE(absl::StrCat(rows, " ", data, loader));
        auto run = StartRun(
            Job(absl::StrCat(data, kFlip, " loader { ", loader, " }"), kBoth),
            dataset);
        ASSERT_TRUE(run.ok()) << run.status();
        EXPECT_EQ(Losses(**run), losses);
        EXPECT_EQ(Saved(**run), wanted);
      }
    }
  }
}

TEST_F(TrainingMixTest, AnInterruptedRunEndsWithTheSameBits) {
  const v1::Dataset dataset = StoreImages(16);
  for (const char* loader : {"", "loader { workers: 2 }"}) {
    for (const char* training :
         {"", "precision: FP16", "precision: BF16 ema { decay: 0.5 }"}) {
      SCOPED_TRACE(absl::StrCat(loader, training));
      const v1::JobSpec spec =
          Job(absl::StrCat("drop_last: false ", kFlip, loader),
              absl::StrCat(kBoth, training));
      auto whole = StartRun(spec, dataset);
      ASSERT_TRUE(whole.ok()) << whole.status();
      Losses(**whole);
      const std::string wanted = Saved(**whole);
      for (const uint64_t step : {1u, 2u, 4u}) {
        auto first = StartRun(spec, dataset);
        ASSERT_TRUE(first.ok()) << first.status();
        auto second = StartRun(spec, dataset, SavedAt(**first, step));
        ASSERT_TRUE(second.ok()) << second.status();
        Losses(**second);
        EXPECT_EQ(Saved(**second), wanted) << step;
      }
    }
  }
}

TEST_F(TrainingMixTest, WorkersMixBatchesOfAStepAlike) {
  const v1::Dataset dataset = StoreImages(24);
  const auto losses = [&](const std::string& data) {
    auto run = StartRun(
        Job(data, absl::StrCat(kBoth, " accumulate_batches: 2")), dataset);
    EXPECT_TRUE(run.ok()) << run.status();
    return Losses(**run);
  };
  const std::vector<double> plain = losses("");
  EXPECT_EQ(plain.size(), 8u);
  EXPECT_EQ(losses("loader { workers: 2 }"), plain);
}

TEST_F(TrainingMixTest, EvaluationIsNotMixed) {
  const v1::Dataset dataset = StoreImages(20);
  auto plain = StartRun(Job("held_out { last: 5 }", ""), dataset);
  auto mixed = StartRun(Job("held_out { last: 5 }", kBoth), dataset);
  ASSERT_TRUE(plain.ok() && mixed.ok()) << mixed.status();
  const auto without = (*plain)->Evaluate();
  const auto with = (*mixed)->Evaluate();
  ASSERT_TRUE(without.ok() && with.ok()) << with.status();
  EXPECT_EQ(with->loss(), without->loss());
  EXPECT_EQ(with->accuracy(), without->accuracy());
  EXPECT_NE(Losses(**mixed), Losses(**plain));
}

TEST_F(TrainingMixTest, WithProbabilityZeroNothingIsMixed) {
  const v1::Dataset dataset = StoreImages(18);
  auto plain = StartRun(Job("", ""), dataset);
  auto never =
      StartRun(Job("", "mix { mixup_alpha: 1 probability: 0 }"), dataset);
  ASSERT_TRUE(plain.ok() && never.ok()) << never.status();
  const std::vector<double> wanted = Losses(**plain);
  const std::vector<double> losses = Losses(**never);
  ASSERT_EQ(losses.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(losses[i], wanted[i], 1e-5) << i;
  }
}

TEST_F(TrainingMixTest, TakesTheBytesThatArePlanned) {
  for (const char* training : {"", "accumulate_batches: 2"}) {
    auto run = StartRun(
        Job("held_out { last: 5 }", absl::StrCat(kBoth, " ", training)),
        StoreImages(21));
    ASSERT_TRUE(run.ok()) << run.status();
    Losses(**run);
    ASSERT_TRUE((*run)->Evaluate().ok());
    const v1::MemoryUse memory = (*run)->memory();
    EXPECT_EQ(memory.measured_peak_bytes(), memory.planned_peak_bytes());
  }
}

TEST_F(TrainingMixTest, ReplacedPixelsHaveNoTargetsOfTheirOwn) {
  // The rows are images of 2 x 2 numbers and a copy of each as its target.
  const v1::Dataset images = StoreNpz(files::Zip(
      {{"x.npy", files::Npy("|u1", "(6, 1, 2, 2)", "abcdefghijklmnopqrstuvwx")},
       {"y.npy", files::Npy("|u1", "(6, 2, 2)", "abcdefghijklmnopqrstuvwx")}},
      false));
  v1::JobSpec spec;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "model { input_shape: [1, 2, 2] layers { conv2d { filters: 1 kernel: 1 } "
      "} } training { mean_squared_error {} sgd { learning_rate: 1e-6 } "
      "batch_size: 3 epochs: 1 mix { cutmix_alpha: 1 } }",
      &spec));
  EXPECT_EQ(StartRun(spec, images).status().message(),
            "training.mix.cutmix_alpha: training compares numbers of 2 x 2 "
            "places in the image of 2 x 2 pixels, but the targets of replaced "
            "pixels stay; use mixup_alpha instead");
  spec.mutable_training()->mutable_mix()->clear_cutmix_alpha();
  spec.mutable_training()->mutable_mix()->set_mixup_alpha(1);
  const auto run = StartRun(spec, images);
  EXPECT_TRUE(run.ok()) << run.status();
}

// Returns a job whose loss compares a number for each place of the output of a
// convolution over images of 4 x 4 pixels.
v1::JobSpec PlacesJob(const std::string& conv2d) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("model { input_shape: [1, 4, 4] layers { conv2d { filters: "
                   "1 ",
                   conv2d,
                   " } } } training { mean_squared_error {} sgd { "
                   "learning_rate: 1e-6 } batch_size: 3 epochs: 1 mix { "
                   "cutmix_alpha: 1 } }"),
      &spec));
  return spec;
}

TEST_F(TrainingMixTest, CoarserPlacesHaveNoTargetsOfTheirOwn) {
  const auto images = [this](const std::string& shape, size_t numbers) {
    return StoreNpz(files::Zip(
        {{"x.npy", files::Npy("|u1", "(6, 1, 4, 4)", std::string(96, 'x'))},
         {"y.npy", files::Npy("|u1", shape, std::string(numbers, 'y'))}},
        false));
  };
  EXPECT_THAT(
      std::string(
          StartRun(PlacesJob("kernel: 2 stride: 2"), images("(6, 1, 2, 2)", 24))
              .status()
              .message()),
      HasSubstr("numbers of 2 x 2 places in the image of 4 x 4 pixels"));
  // One number for the whole image is mixed by its share.
  const auto whole =
      StartRun(PlacesJob("kernel: 4"), images("(6, 1, 1, 1)", 6));
  EXPECT_TRUE(whole.ok()) << whole.status();
  // 3 x 3 places do not divide the image of 4 x 4 pixels.
  const auto other =
      StartRun(PlacesJob("kernel: 2"), images("(6, 1, 3, 3)", 54));
  EXPECT_TRUE(other.ok()) << other.status();
}

TEST_F(TrainingMixTest, WhatCannotBeMixedIsRefusedAtTheStart) {
  const v1::Dataset dataset = StoreImages(18);
  EXPECT_THAT(
      std::string(StartRun(Job("", "mix {}"), dataset).status().message()),
      HasSubstr("training.mix has neither mixup_alpha nor cutmix_alpha"));
  v1::JobSpec flat = Job("", "mix { cutmix_alpha: 1 }");
  flat.mutable_model()->clear_input_shape();
  flat.mutable_model()->add_input_shape(16);
  flat.mutable_model()->mutable_layers()->DeleteSubrange(0, 2);
  EXPECT_THAT(std::string(StartRun(flat, dataset).status().message()),
              HasSubstr("training.mix.cutmix_alpha is for images"));
  flat.mutable_training()->mutable_mix()->clear_cutmix_alpha();
  flat.mutable_training()->mutable_mix()->set_mixup_alpha(1);
  EXPECT_TRUE(StartRun(flat, dataset).ok());
}

}  // namespace
}  // namespace gpupool::engine
