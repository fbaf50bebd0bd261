#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The model holds the statistics.
constexpr char kBatchNorm[] =
    "(float[2, 1, 2] x, float[1] s = {1}, float[1] b = {0}, "
    "float[1] m = {1}, float[1] v = {4}) => (float[2, 1, 2] y) "
    "{ y = BatchNormalization<epsilon = 0.0>(x, s, b, m, v) }";

TEST(LowerNormTest, BatchNormServesWithItsRunningStatistics) {
  const auto y =
      RunLowering({.graph = kBatchNorm,
                   .inputs = {{"x", Floats({2, 1, 2}, {1, 3, 5, 7})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(0, 1, 2, 3));
}

TEST(LowerNormTest, BatchNormTrainsAndUpdatesWhatItOwns) {
  const auto model =
      ImportLowering({.graph = kBatchNorm,
                      .inputs = {{"x", Floats({2, 1, 2}, {1, 3, 5, 7})}},
                      .training = true});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(CountOps(model->graph, Op::kBatchNormTraining), 1);
  EXPECT_EQ(CountOps(model->graph, Op::kBatchNormUpdate), 1);
  const Value* mean = model->graph.FindValue("m");
  ASSERT_NE(mean, nullptr);
  EXPECT_EQ(mean->memory_class, MemoryClass::kState);
  EXPECT_EQ(model->graph.FindValue("s")->memory_class, MemoryClass::kWeight);
}

TEST(LowerNormTest, BatchNormOfGivenStatisticsMeansWhatTheFileSays) {
  const auto y = RunLowering(
      {.opset = 15,
       .graph = "(float[2, 1] x, float[1] s, float[1] b, float[1] m, "
                "float[1] v) => (float[2, 1] y, float[1] rm, float[1] rv) "
                "{ y, rm, rv = BatchNormalization<epsilon = 0.0, "
                "momentum = 0.5, training_mode = 1>(x, s, b, m, v) }",
       .inputs = {{"x", Floats({2, 1}, {1, 3})},
                  {"s", Floats({1}, {1})},
                  {"b", Floats({1}, {0})},
                  {"m", Floats({1}, {0})},
                  {"v", Floats({1}, {0})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(-1, 1));
  EXPECT_THAT((*y)[1].numbers, ElementsAre(1));
  EXPECT_THAT((*y)[2].numbers, ElementsAre(0.5));
}

TEST(LowerNormTest, LayerNormIsOneNodeOverFlattenedAxes) {
  const auto model = ImportLowering(
      {.opset = 17,
       .graph = "(float[2, 3] x, float[3] s, float[3] b) => (float[2, 3] y) "
                "{ y = LayerNormalization(x, s, b) }"});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->graph.nodes().size(), 1u);
}

TEST(LowerNormTest, TrainingKeepsTheStatisticsThatGradientsNeed) {
  for (const std::string call :
       {"LayerNormalization(x, s)", "InstanceNormalization(x, s, s)",
        "GroupNormalization<num_groups = 1>(x, s, s)"}) {
    SCOPED_TRACE(call);
    for (const bool training : {false, true}) {
      const auto model = ImportLowering(
          {.opset = 21,
           .graph = "(float[2, 3, 3] x, float[3] s) => (float[2, 3, 3] y) "
                    "{ y = " +
                    call + " }",
           .training = training});
      ASSERT_TRUE(model.ok()) << model.status();
      ASSERT_EQ(CountOps(model->graph, Op::kLayerNorm), 1);
      for (const Node& node : model->graph.nodes()) {
        if (node.op != Op::kLayerNorm) continue;
        EXPECT_EQ(node.outputs.size(), training ? 3u : 1u);
      }
    }
  }
}

TEST(LowerNormTest, GroupNormScalesPerChannelSinceOpset21) {
  const auto y = RunLowering(
      {.opset = 21,
       .graph = "(float[1, 2, 1] x, float[2] s, float[2] b) => "
                "(float[1, 2, 1] y) { y = GroupNormalization<num_groups = 1, "
                "epsilon = 0.0>(x, s, b) }",
       .inputs = {{"x", Floats({1, 2, 1}, {1, 3})},
                  {"s", Floats({2}, {10, 20})},
                  {"b", Floats({2}, {0, 1})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(-10, 21));
}

TEST(LowerNormTest, GroupNormOfNothingIsNothing) {
  const auto model = ImportLowering(
      {.opset = 21,
       .graph = "(float[2] s) => (float[0, 2, 3] y) { "
                "n = Constant<value = int64[3] {0, 2, 3}>() "
                "x = ConstantOfShape(n) "
                "y = GroupNormalization<num_groups = 1>(x, s, s) }"});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->outputs[0].shape.elements(), 0);
}

TEST(LowerNormTest, RmsNormDividesByTheRootOfTheMeanSquare) {
  const auto y = RunLowering(
      {.opset = 23,
       .graph = "(float[1, 2] x, float[2] s) => (float[1, 2] y) "
                "{ y = RMSNormalization<epsilon = 0.0>(x, s) }",
       .inputs = {{"x", Floats({1, 2}, {1, 7})}, {"s", Floats({2}, {5, 10})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_NEAR((*y)[0].numbers[0], 1, 1e-6);
  EXPECT_NEAR((*y)[0].numbers[1], 14, 1e-5);
}

TEST(LowerNormTest, AVectorOfZerosHasNoLengthAndStays) {
  const auto y = RunLowering(
      {.graph = "(float[2, 2] x) => (float[2, 2] y, float[2, 2] z) "
                "{ y = LpNormalization(x) z = LpNormalization<p = 1>(x) }",
       .inputs = {{"x", Floats({2, 2}, {0, 0, 3, 4})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers,
              ElementsAre(0, 0, DoubleNear(0.6, 1e-6), DoubleNear(0.8, 1e-6)));
  EXPECT_EQ((*y)[1].numbers[0], 0);
}

TEST(LowerNormTest, GroupsThatDoNotDivideTheChannelsAreRefused) {
  const auto y = ImportLowering(
      {.opset = 21,
       .graph = "(float[1, 3, 1] x, float[3] s, float[3] b) => "
                "(float[1, 3, 1] y) "
                "{ y = GroupNormalization<num_groups = 2>(x, s, b) }"});
  EXPECT_THAT(std::string(y.status().message()), HasSubstr("num_groups 2"));
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
