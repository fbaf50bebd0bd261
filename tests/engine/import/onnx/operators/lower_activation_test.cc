#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(LowerActivationTest, SoftmaxFlattensFromTheAxisOnBeforeOpset13) {
  const LoweringCase one{.opset = 11,
                         .graph =
                             "(float[1, 2, 2] x) => (float[1, 2, 2] y) "
                             "{ y = Softmax<axis = 1>(x) }",
                         .inputs = {{"x", Floats({1, 2, 2}, {0, 0, 0, 0})}}};
  const auto flat = RunLowering(one);
  ASSERT_TRUE(flat.ok()) << flat.status();
  EXPECT_THAT((*flat)[0].numbers, ElementsAre(0.25, 0.25, 0.25, 0.25));
  LoweringCase later = one;
  later.opset = 13;
  const auto one_axis = RunLowering(later);
  ASSERT_TRUE(one_axis.ok()) << one_axis.status();
  EXPECT_THAT((*one_axis)[0].numbers, ElementsAre(0.5, 0.5, 0.5, 0.5));
}

TEST(LowerActivationTest, SoftmaxOverTheLastAxisNeedsNoOtherNode) {
  const auto model = ImportLowering(
      {.opset = 13,
       .graph = "(float[2, 3, 4] x) => (float[2, 3, 4] y) { y = Softmax(x) }"});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->graph.nodes().size(), 1u);
}

TEST(LowerActivationTest, DropoutDropsInTrainingOnly) {
  LoweringCase one{.opset = 13,
                   .graph =
                       "(float[64] x) => (float[64] y) "
                       "{ y = Dropout(x) }",
                   .inputs = {{"x", Floats({64}, std::vector<double>(64, 1))}}};
  const auto served = ImportLowering(one);
  ASSERT_TRUE(served.ok()) << served.status();
  EXPECT_EQ(CountOps(served->graph, Op::kDropout), 0);
  one.training = true;
  const auto trained = ImportLowering(one);
  ASSERT_TRUE(trained.ok()) << trained.status();
  EXPECT_EQ(CountOps(trained->graph, Op::kDropout), 1);
  EXPECT_NE(trained->graph.FindValue("seed"), nullptr);
  EXPECT_NE(trained->graph.FindValue("step"), nullptr);
}

TEST(LowerActivationTest, DropoutMaskIsThatOfItsOutput) {
  const auto y =
      RunLowering({.opset = 10,
                   .graph = "(float[64] x) => (float[64] y, bool[64] m) "
                            "{ y, m = Dropout<ratio = 0.5>(x) }",
                   .inputs = {{"x", Floats({64}, std::vector<double>(64, 3))}},
                   .training = true});
  ASSERT_TRUE(y.ok()) << y.status();
  int kept = 0;
  for (size_t i = 0; i < 64; ++i) {
    EXPECT_EQ((*y)[0].numbers[i], (*y)[1].numbers[i] != 0 ? 6 : 0);
    kept += (*y)[1].numbers[i] != 0;
  }
  EXPECT_GT(kept, 10);
  EXPECT_LT(kept, 54);
}

TEST(LowerActivationTest, DropoutRatioOfOneIsRefused) {
  const auto y = ImportLowering({.opset = 10,
                                 .graph = "(float[2] x) => (float[2] y) "
                                          "{ y = Dropout<ratio = 1.0>(x) }",
                                 .training = true});
  EXPECT_EQ(y.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(LowerActivationTest, PReluSlopeIsPerChannelBeforeOpset7) {
  const auto y = RunLowering(
      {.opset = 6,
       .graph = "(float[1, 2, 2] x, float[2] s) => (float[1, 2, 2] y) "
                "{ y = PRelu(x, s) }",
       .inputs = {{"x", Floats({1, 2, 2}, {-1, 1, -1, 1})},
                  {"s", Floats({2}, {0.5, 0.25})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(-0.5, 1, -0.25, 1));
}

TEST(LowerActivationTest, HardmaxMarksTheFirstOfEqualMaxima) {
  const auto y = RunLowering(
      {.opset = 13,
       .graph = "(float[1, 3] x) => (float[1, 3] y) { y = Hardmax(x) }",
       .inputs = {{"x", Floats({1, 3}, {1, 7, 7})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(0, 1, 0));
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
