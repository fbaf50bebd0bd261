#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(LowerTrainingTest, MomentumWeighsTheFirstGradientFully) {
  const auto y = RunLowering(
      {.opset = 13,
       .graph = "(float r, int64 t, float[1] x, float[1] g, float[1] v) => "
                "(float[1] a, float[1] b) "
                "{ a, b = ai.onnx.preview.training.Momentum<alpha = 0.9, "
                "beta = 0.1, norm_coefficient = 0.0, mode = \"standard\">"
                "(r, t, x, g, v) }",
       .inputs = {{"r", Floats({}, {0.5})},
                  {"t", Ints({}, {0})},
                  {"x", Floats({1}, {1})},
                  {"g", Floats({1}, {2})},
                  {"v", Floats({1}, {10})}},
       .training_domain = true});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_NEAR((*y)[1].numbers[0], 11, 1e-6);
  EXPECT_NEAR((*y)[0].numbers[0], -4.5, 1e-6);
}

TEST(LowerTrainingTest, InputsThatDoNotComeInGroupsAreRefused) {
  const auto y = ImportLowering(
      {.opset = 13,
       .graph = "(float r, int64 t, float[1] x, float[1] g) => (float[1] a) "
                "{ a = ai.onnx.preview.training.Adagrad(r, t, x, g) }",
       .training_domain = true});
  EXPECT_EQ(y.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(LowerTrainingTest, GradientFollowsTheGraph) {
  const auto y = RunLowering(
      {.opset = 13,
       .graph = "(float a, float b) => (float c, float da) "
                "{ c = Mul(a, b) da = ai.onnx.preview.training.Gradient<"
                "xs = [\"a\"], zs = [\"b\"], y = \"c\">(a, b) }",
       .inputs = {{"a", Floats({}, {2})}, {"b", Floats({}, {7})}},
       .training_domain = true});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[1].numbers, ElementsAre(7));
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
