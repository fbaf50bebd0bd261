#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::map<std::string, HostTensor> LossInputs() {
  return {{"x", Floats({2, 2}, {0, 0, 0, 0})},
          {"t", Ints({2}, {0, 1})},
          {"w", Floats({2}, {1, 3})}};
}

absl::StatusOr<std::vector<HostTensor>> Loss(const std::string& attributes,
                                             const std::string& inputs) {
  return RunLowering({.opset = 13,
                      .graph = "(float[2, 2] x, int64[2] t, float[2] w) => "
                               "(float y) { y = SoftmaxCrossEntropyLoss<" +
                               attributes + ">(" + inputs + ") }",
                      .inputs = LossInputs()});
}

TEST(LowerLossTest, MeanWithoutWeightsIsTheWholeOp) {
  const auto model =
      ImportLowering({.opset = 13,
                      .graph = "(float[2, 2] x, int64[2] t) => (float y) "
                               "{ y = SoftmaxCrossEntropyLoss(x, t) }"});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(CountOps(model->graph, Op::kCrossEntropy), 1);
}

TEST(LowerLossTest, WeightsDivideTheMean) {
  const auto sum = Loss("reduction = \"sum\"", "x, t, w");
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_NEAR((*sum)[0].numbers[0], 4 * 0.693147, 1e-5);
  const auto mean = Loss("reduction = \"mean\"", "x, t, w");
  ASSERT_TRUE(mean.ok()) << mean.status();
  EXPECT_NEAR((*mean)[0].numbers[0], 0.693147, 1e-5);
}

TEST(LowerLossTest, IgnoredLabelsCountNothing) {
  const auto each = Loss("reduction = \"none\", ignore_index = 1", "x, t");
  ASSERT_TRUE(each.ok()) << each.status();
  EXPECT_NEAR((*each)[0].numbers[0], 0.693147, 1e-5);
  EXPECT_EQ((*each)[0].numbers[1], 0);
  const auto sum = Loss("reduction = \"sum\", ignore_index = 1", "x, t, w");
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_NEAR((*sum)[0].numbers[0], 0.693147, 1e-5);
}

TEST(LowerLossTest, ScoresOfNoClassAreRefused) {
  const auto model = ImportLowering(
      {.opset = 13,
       .graph = "(int64[3] t) => (float y) { "
                "n = Constant<value = int64[2] {3, 0}>() "
                "x = ConstantOfShape(n) y = SoftmaxCrossEntropyLoss(x, t) }"});
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(model.status().message()),
              HasSubstr("scores [3, 0] must have at least one class"));
}

TEST(LowerLossTest, AnUnknownReductionOrOtherLabelShapeIsRefused) {
  EXPECT_EQ(Loss("reduction = \"median\"", "x, t").status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Loss("reduction = \"sum\"", "x, x").status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
