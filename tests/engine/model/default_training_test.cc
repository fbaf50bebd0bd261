#include "engine/model/default_training.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

#include "engine/model/model_programs.h"

namespace gpupool::engine {
namespace {

v1::ModelSpec SpecOf(const std::string& text) {
  v1::ModelSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec));
  return spec;
}

v1::TrainingSpec TrainingOf(const v1::ModelSpec& spec) {
  const auto forward = BuildModel(spec, {.batch = 4});
  EXPECT_TRUE(forward.ok()) << forward.status();
  return DefaultTraining(*forward, 4, v1::BF16);
}

TEST(DefaultTrainingTest, RowsOfScoresAreClassified) {
  const v1::ModelSpec spec =
      SpecOf("input_shape: 4 layers { dense { units: 3 } }");
  const v1::TrainingSpec training = TrainingOf(spec);
  EXPECT_TRUE(training.has_cross_entropy());
  EXPECT_EQ(training.batch_size(), 4u);
  EXPECT_EQ(training.precision(), v1::BF16);
  EXPECT_GT(training.sgd().momentum(), 0);
  EXPECT_TRUE(BuildTrainingGraph(spec, {}, training).ok());
}

TEST(DefaultTrainingTest, OtherOutputsAreFitted) {
  const v1::ModelSpec spec = SpecOf(
      "input_shape: [1, 4, 4] layers { conv2d { filters: 2 kernel: 3 } }");
  const v1::TrainingSpec training = TrainingOf(spec);
  EXPECT_TRUE(training.has_mean_squared_error());
  EXPECT_TRUE(BuildTrainingGraph(spec, {}, training).ok());
}

}  // namespace
}  // namespace gpupool::engine
