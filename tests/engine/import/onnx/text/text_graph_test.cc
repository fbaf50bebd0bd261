#include "engine/import/onnx/text/text_graph.h"

#include <string>

#include "engine/import/onnx/file/onnx_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/import/onnx/model_text.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<v1::Plan> PlanOf(const std::string& graph,
                                const v1::OnnxModel& options = {}) {
  const auto file =
      OnnxFile::Parse(ModelOfGraph(graph).SerializeAsString(), ExternalFiles());
  EXPECT_TRUE(file.ok()) << file.status();
  if (!file.ok()) return file.status();
  return PlanTexts(**file, options);
}

TEST(TextGraphTest, ModelsWithInputsOfTextsAreTexts) {
  EXPECT_TRUE(HasTexts(
      ModelOfGraph("(string[n] x) => (string[n] y) { y = Identity(x) }")));
  EXPECT_TRUE(HasTexts(
      ModelOfGraph("(float[n] x) => (string[n] y) { y = Cast<to = 8>(x) }")));
  EXPECT_FALSE(HasTexts(
      ModelOfGraph("(float[n] x) => (float[n] y) { y = Identity(x) }")));
  EXPECT_FALSE(HasTexts(ModelOfGraph(
      "(float[n] x) => (string[n] y) { z = Relu(x) y = Cast<to = 8>(z) }")))
      << "numbers are computed on a device";
}

TEST(TextGraphTest, OneNameOfAllFirstDimensionsIsTheBatch) {
  const auto plan =
      PlanOf("(string[n, 2] x) => (float[n, 2] y) { y = Cast<to = 1>(x) }");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->inputs(0).data_type(), v1::STRING);
  EXPECT_THAT(plan->inputs(0).shape(), ElementsAre(-1, 2));
  EXPECT_TRUE(plan->inputs(0).variable().empty());
  EXPECT_EQ(plan->outputs(0).data_type(), v1::FLOAT32);
  EXPECT_EQ(plan->text().nodes(0).op(), v1::TextProgram::CAST);
  EXPECT_THAT(plan->text().outputs(), ElementsAre(1));
}

TEST(TextGraphTest, OtherOpenDimensionsHaveALargestSize) {
  const auto plan =
      PlanOf("(string[n] x) => (string[m] y) { y = StringNormalizer(x) }");
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->inputs(0).variable_size(), 1);
  EXPECT_EQ(plan->inputs(0).variable(0).axis(), 0u);
  EXPECT_EQ(plan->inputs(0).variable(0).maximum(), kMaxOpenTextSize);
  v1::OnnxModel options;
  options.add_unbatched_inputs("x");
  EXPECT_EQ(
      PlanOf("(string[n] x) => (string[n] y) { y = Identity(x) }", options)
          ->inputs(0)
          .variable_size(),
      1);
}

TEST(TextGraphTest, ConstantsAreNumberedBeforeNodes) {
  const auto plan = PlanOf(
      "(string[n, 1] x) => (string[n] y) "
      "{ axes = Constant<value_ints = [1]>() y = Squeeze(x, axes) }");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->text().constants(0).integers(), ElementsAre(1));
  EXPECT_THAT(plan->text().nodes(0).inputs(), ElementsAre(0, 1));
  EXPECT_THAT(plan->text().outputs(), ElementsAre(2));
}

TEST(TextGraphTest, ANodeThatComputesNumbersIsNamed) {
  const auto plan = PlanOf(
      "(string[n] x) => (float[n] y) { f = Cast<to = 1>(x) y = Relu(f) }");
  EXPECT_TRUE(absl::IsUnimplemented(plan.status())) << plan.status();
  EXPECT_THAT(std::string(plan.status().message()),
              AllOf(HasSubstr("Relu 'y'"), HasSubstr("a model of their own")));
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
