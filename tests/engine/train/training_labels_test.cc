// Trains on labels of several numbers per row, from the file to the evaluation.
// Each job must learn the rule of its data.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/philox.h"
#include "engine/train/training_run.h"
#include "tests/engine/data/files.h"
#include "tests/engine/train/run_fixture.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

constexpr int kLabelRows = 96;

class TrainingLabelsTest : public RunFixture {
 protected:
  static std::string Array(const std::string& shape,
                           const std::vector<float>& numbers) {
    std::string bytes(numbers.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
    return files::Npy("<f4", shape, bytes);
  }

  v1::Dataset Store(const std::string& feature_shape,
                    const std::vector<float>& features,
                    const std::string& label_shape,
                    const std::vector<float>& labels) {
    const std::string rows = std::to_string(kLabelRows);
    return StoreNpz(files::Zip(
        {{"x.npy", Array("(" + rows + "," + feature_shape + ")", features)},
         {"y.npy", Array("(" + rows + "," + label_shape + ")", labels)}},
        false));
  }

  static v1::JobSpec Job(const std::string& model_and_loss) {
    v1::JobSpec spec;
    EXPECT_TRUE(
        google::protobuf::TextFormat::ParseFromString(model_and_loss, &spec));
    spec.mutable_data()->mutable_held_out()->set_last(17);
    spec.mutable_training()->set_batch_size(10);
    spec.mutable_training()->set_epochs(150);
    spec.mutable_training()->mutable_adam()->set_learning_rate(0.05);
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

  // Trains to the end, once without a break and once from a checkpoint in the
  // middle. Both must give the same result, with the planned bytes.
  v1::Evaluation Train(const v1::JobSpec& spec, const v1::Dataset& dataset) {
    auto run = Start(spec, dataset);
    EXPECT_TRUE(run.ok()) << run.status();
    if (!run.ok()) return {};
    std::string middle;
    while (!(*run)->done()) {
      EXPECT_TRUE((*run)->Step().ok());
      if ((*run)->step() == (*run)->total_steps() / 2) {
        middle = (*run)->SaveCheckpoint()->manifest_sha256();
      }
    }
    const v1::Evaluation evaluation = *(*run)->Evaluate();
    EXPECT_EQ((*run)->memory().planned_peak_bytes(),
              (*run)->memory().measured_peak_bytes());
    const std::string end = (*run)->SaveCheckpoint()->manifest_sha256();
    run->reset();
    auto resumed = Start(spec, dataset, middle);
    EXPECT_TRUE(resumed.ok()) << resumed.status();
    while (!(*resumed)->done()) EXPECT_TRUE((*resumed)->Step().ok());
    EXPECT_EQ((*resumed)->Evaluate()->loss(), evaluation.loss());
    EXPECT_EQ((*resumed)->SaveCheckpoint()->manifest_sha256(), end);
    return evaluation;
  }
};

// Returns two numbers per row in [-1, 1).
std::vector<float> Points() {
  Philox random(11);
  std::vector<float> points;
  for (int i = 0; i < 2 * kLabelRows; ++i) {
    points.push_back(2 * random.NextFloat() - 1);
  }
  return points;
}

TEST_F(TrainingLabelsTest, RegressionOfAMatrix) {
  const std::vector<float> x = Points();
  std::vector<float> y;
  for (int i = 0; i < kLabelRows; ++i) {
    const float a = x[2 * i], b = x[2 * i + 1];
    y.insert(y.end(), {a, b, a + b, a - b, 2 * a, 1 - b});
  }
  for (const char* loss : {"mean_squared_error {}", "l1 {}", "huber {}"}) {
    v1::JobSpec spec = Job(std::string(R"pb(
                             model {
                               input_shape: [ 2 ]
                               layers { dense { units: 6 } }
                             }
                             training {)pb") +
                           loss + "}");
    spec.mutable_training()->mutable_schedule()->mutable_cosine();
    const v1::Evaluation evaluation = Train(spec, Store("2", x, "2,3", y));
    EXPECT_LT(evaluation.loss(), 1e-2) << loss;
    EXPECT_EQ(evaluation.rows(), 17u);
  }
}

TEST_F(TrainingLabelsTest, SeveralYesAndNoAnswersARow) {
  const std::vector<float> x = Points();
  std::vector<float> y;
  for (int i = 0; i < kLabelRows; ++i) {
    const float a = x[2 * i], b = x[2 * i + 1];
    for (bool yes : {a > 0, b > 0, a > b}) y.push_back(yes ? 1 : 0);
  }
  const v1::JobSpec spec = Job(R"pb(
    model {
      input_shape: [ 2 ]
      layers { dense { units: 3 } }
    }
    training { bce_with_logits {} })pb");
  EXPECT_LT(Train(spec, Store("2", x, "3", y)).loss(), 0.12)
      << "a coin gives ln 2 = 0.69";
}

TEST_F(TrainingLabelsTest, ATeachersDistributions) {
  // The teacher is a softmax over (a, b, 0), which a dense layer can represent.
  const std::vector<float> x = Points();
  std::vector<float> y;
  for (int i = 0; i < kLabelRows; ++i) {
    const double a = std::exp(3 * x[2 * i]), b = std::exp(3 * x[2 * i + 1]);
    for (double e : {a, b, 1.0}) {
      y.push_back(static_cast<float>(e / (a + b + 1)));
    }
  }
  const v1::JobSpec spec = Job(R"pb(
    model {
      input_shape: [ 2 ]
      layers { dense { units: 3 } }
      layers { log_softmax {} }
    }
    training { kl_divergence {} })pb");
  const v1::Evaluation evaluation = Train(spec, Store("2", x, "3", y));
  EXPECT_LT(evaluation.loss(), 1e-3) << "0 where both distributions are equal";
  EXPECT_GE(evaluation.loss(), -1e-6);
}

// Sequences that count upwards modulo five. The label of a position is the next
// token. The label of the last position is ignored.
constexpr int kTokens = 6;
constexpr int kVocabulary = 5;

v1::JobSpec TokenJob() {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        model {
          input_shape: [ 6, 5 ]
          layers { dense { units: 5 } }
        }
        data { held_out { last: 17 } }
        training {
          cross_entropy { ignore_label: -100 }
          adam { learning_rate: 0.05 }
          batch_size: 10
          epochs: 20
          top_k: 2
        })pb",
      &spec));
  return spec;
}

std::vector<float> OneHotTokens() {
  std::vector<float> x;
  for (int i = 0; i < kLabelRows; ++i) {
    for (int t = 0; t < kTokens; ++t) {
      for (int v = 0; v < kVocabulary; ++v) {
        x.push_back(v == (i + t) % kVocabulary ? 1 : 0);
      }
    }
  }
  return x;
}

std::vector<float> NextTokens(float last) {
  std::vector<float> y;
  for (int i = 0; i < kLabelRows; ++i) {
    for (int t = 0; t + 1 < kTokens; ++t) {
      y.push_back(static_cast<float>((i + t + 1) % kVocabulary));
    }
    y.push_back(last);
  }
  return y;
}

TEST_F(TrainingLabelsTest, NextTokensWithIgnoredOnes) {
  const v1::Evaluation evaluation =
      Train(TokenJob(), Store("6,5", OneHotTokens(), "6", NextTokens(-100)));
  EXPECT_EQ(evaluation.accuracy(), 1)
      << "ignored tokens count neither as right nor in the number";
  EXPECT_EQ(evaluation.top_k_accuracy(), 1);
  EXPECT_LT(evaluation.loss(), 0.2);
}

TEST_F(TrainingLabelsTest, AllTokensCountWithoutAnIgnoredLabel) {
  v1::JobSpec spec = TokenJob();
  spec.mutable_training()->mutable_cross_entropy()->clear_ignore_label();
  // The last label is always 0, which is right for one row in five.
  const v1::Evaluation evaluation =
      Train(spec, Store("6,5", OneHotTokens(), "6", NextTokens(0)));
  EXPECT_NEAR(evaluation.accuracy(), 1 - 4.0 / 5 / kTokens, 0.03);
}

// Images of 4 x 4 pixels; the label of a pixel is whether it is bright. The
// first pixel of each image has the ignored label 255.
constexpr int kPixels = 16;

std::vector<float> Pixels() {
  Philox random(12);
  std::vector<float> x;
  for (int i = 0; i < kLabelRows * kPixels; ++i) {
    x.push_back(2 * random.NextFloat() - 1);
  }
  return x;
}

std::vector<float> BrightPixels(const std::vector<float>& x) {
  std::vector<float> y;
  for (int i = 0; i < kLabelRows * kPixels; ++i) {
    y.push_back(i % kPixels == 0 ? 255.0f : x[i] > 0.25f ? 1.0f : 0.0f);
  }
  return y;
}

v1::JobSpec PixelJob() {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        model {
          input_shape: [ 1, 4, 4 ]
          layers { conv2d { filters: 2 kernel: 1 } }
        }
        data { held_out { last: 17 } }
        training {
          cross_entropy {
            ignore_label: 255
            class_weights: [ 1, 3 ]
          }
          adam { learning_rate: 0.05 }
          batch_size: 10
          epochs: 60
        })pb",
      &spec));
  return spec;
}

TEST_F(TrainingLabelsTest, PixelsWithIgnoredOnesAndClassWeights) {
  const std::vector<float> x = Pixels();
  const v1::Evaluation evaluation =
      Train(PixelJob(), Store("1,4,4", x, "4,4", BrightPixels(x)));
  // The weights move the border between the classes.
  EXPECT_GT(evaluation.accuracy(), 0.9);
  EXPECT_EQ(evaluation.rows(), 17u);
}

// Without a step to speak of, the two classes are told apart by nothing, and
// the loss is that of the weights alone.
TEST_F(TrainingLabelsTest, TheHeldOutLossIsDividedByTheWeightsOfItsRows) {
  v1::JobSpec spec = PixelJob();
  spec.mutable_training()->mutable_adam()->set_learning_rate(1e-12);
  spec.mutable_training()->set_steps(1);
  const std::vector<float> x = Pixels();
  const v1::Dataset dataset = Store("1,4,4", x, "4,4", BrightPixels(x));
  const auto loss_with = [&](std::vector<double> weights) {
    auto& loss = *spec.mutable_training()->mutable_cross_entropy();
    loss.mutable_class_weights()->Assign(weights.begin(), weights.end());
    auto run = Start(spec, dataset);
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? (*run)->Evaluate()->loss() : 0;
  };
  const double all = loss_with({}), dark = loss_with({1, 0}),
               bright = loss_with({0, 1});
  double bright_pixels = 0, pixels = 0;
  const std::vector<float> labels = BrightPixels(x);
  for (size_t i = (kLabelRows - 17) * kPixels; i < labels.size(); ++i) {
    pixels += labels[i] != 255;
    bright_pixels += labels[i] == 1;
  }
  const double share = bright_pixels / pixels;
  EXPECT_NEAR(all, share * bright + (1 - share) * dark, 1e-5);
  EXPECT_NEAR(loss_with({1, 3}),
              (3 * share * bright + (1 - share) * dark) / (1 + 2 * share),
              1e-5);
}

TEST_F(TrainingLabelsTest, ATokenOutOfTheVocabularyIsNamed) {
  std::vector<float> y = NextTokens(-100);
  y[3 * kTokens + 1] = 5;
  EXPECT_THAT(Start(TokenJob(), Store("6,5", OneHotTokens(), "6", y))
                  .status()
                  .message(),
              HasSubstr("labels 0 to 5, but the model's output tells only 5"));
  y[3 * kTokens + 1] = -7;
  const absl::Status hidden =
      Start(TokenJob(), Store("6,5", OneHotTokens(), "6", y)).status();
  EXPECT_THAT(hidden.message(), HasSubstr("row 3 of the dataset"));
  EXPECT_THAT(hidden.message(), HasSubstr("label -7"));
}

}  // namespace
}  // namespace gpupool::engine
