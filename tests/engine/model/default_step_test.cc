#include "engine/model/default_step.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace gpupool::engine {
namespace {

absl::StatusOr<ModelGraph> StepOf(const std::string& text) {
  v1::ModelSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec));
  const auto source = ModelSource::Open(spec, "");
  EXPECT_TRUE(source.ok()) << source.status();
  return BuildDefaultStep(**source, 4, v1::HIGHEST);
}

bool HasInput(const ModelGraph& model, const std::string& name) {
  return std::any_of(model.graph.values().begin(), model.graph.values().end(),
                     [&](const Value& value) {
                       return value.kind == ValueKind::kInput &&
                              value.name == name;
                     });
}

TEST(DefaultStepTest, RowsOfScoresAreClassified) {
  const auto step = StepOf("input_shape: 4 layers { dense { units: 3 } }");
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_TRUE(HasInput(*step, "labels"));
  EXPECT_FALSE(HasInput(*step, "target"));
}

TEST(DefaultStepTest, OtherOutputsAreFitted) {
  const auto step = StepOf(
      "input_shape: [1, 4, 4] layers { conv2d { filters: 2 kernel: 3 } }");
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_TRUE(HasInput(*step, "target"));
  EXPECT_FALSE(HasInput(*step, "labels"));
}

TEST(DefaultStepTest, TheOptimizerHasMomentum) {
  const auto step = StepOf("input_shape: 4 layers { dense { units: 3 } }");
  ASSERT_TRUE(step.ok()) << step.status();
  const auto& specs = step->persistents;
  EXPECT_TRUE(
      std::any_of(specs.begin(), specs.end(), [](const PersistentSpec& spec) {
        return spec.memory_class == MemoryClass::kOptimizer;
      }));
}

TEST(DefaultStepTest, WithoutWeightsThereIsNothingToTrain) {
  EXPECT_EQ(StepOf("input_shape: 4 layers { relu {} }").status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gpupool::engine
