// A small convolutional net that learns the position of a bright bar, for tests
// of training in several precisions and on several devices.
#pragma once

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/philox.h"
#include "engine/train/trainer.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {

inline constexpr int kBarsSide = 8;
inline constexpr int kBarsClasses = 4;
// Tolerance of the loss in 16 bits, relative to the loss in float32.
inline constexpr double kCurveTolerance = 0.02;

// Returns rows of a CSV file: images of noise with a bar of that brightness,
// and the bar's position.
inline std::string BarsCsv(int rows, double brightness = 1) {
  Philox random(5);
  std::string text;
  for (int row = 0; row < rows; ++row) {
    const int bar = static_cast<int>(random.NextBelow(kBarsClasses));
    for (int i = 0; i < kBarsSide * kBarsSide; ++i) {
      const double lit = i % kBarsSide / 2 == bar ? brightness : 0;
      absl::StrAppend(&text, lit + 0.5 * random.NextFloat(), ",");
    }
    absl::StrAppend(&text, bar, "\n");
  }
  return text;
}

// Returns the job, with changes to its training as text.
inline v1::JobSpec BarsJob(const std::string& training) {
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
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(training, &change));
  spec.mutable_training()->MergeFrom(change);
  return spec;
}

// Returns the losses of `steps` steps, or up to the first step that fails.
inline std::vector<double> Losses(TrainingRun& run, int steps) {
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) {
    const absl::Status status = run.Step();
    EXPECT_TRUE(status.ok()) << status;
    if (!status.ok()) return losses;
    losses.push_back(*run.Loss());
  }
  return losses;
}

// Compares step by step, while there is something left to learn.
inline void ExpectSameCurve(const std::vector<double>& got,
                            const std::vector<double>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    worst = std::max(worst, std::abs(got[i] - wanted[i]) / wanted[i]);
  }
  EXPECT_LE(worst, kCurveTolerance);
  EXPECT_LT(wanted.back(), 0.5 * wanted[0]) << "nothing was learnt";
}

}  // namespace gpupool::engine
