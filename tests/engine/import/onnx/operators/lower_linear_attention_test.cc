#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two tokens and one head of one key and one value.
LoweringCase TwoTokens(const std::string& attributes, const std::string& gates,
                       const std::string& operands) {
  return {.opset = 27,
          .graph =
              "(float[1, 2, 1] q, float[1, 2, 1] k, float[1, 2, 1] v, "
              "float[1, 1, 1, 1] s" +
              gates +
              ") => (float[1, 2, 1] y, float[1, 1, 1, 1] t) { y, t = "
              "LinearAttention<q_num_heads = 1, kv_num_heads = 1, " +
              attributes + ">(q, k, v, s" + operands + ") }",
          .inputs = {{"q", Floats({1, 2, 1}, {1, 2})},
                     {"k", Floats({1, 2, 1}, {3, 1})},
                     {"v", Floats({1, 2, 1}, {1, 5})},
                     {"s", Floats({1, 1, 1, 1}, {10})},
                     {"b", Floats({1, 2, 1}, {0.5, 1})},
                     {"d", Floats({1, 2, 1}, {0, -1e9})}}};
}

TEST(LowerLinearAttentionTest, StatesAddUp) {
  const auto y = RunLowering(TwoTokens("update_rule = \"linear\"", "", ""));
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(13, 36));
  EXPECT_THAT((*y)[1].numbers, ElementsAre(18));
}

TEST(LowerLinearAttentionTest, AGateForgetsTheState) {
  const auto y = RunLowering(TwoTokens("update_rule = \"gated\", scale = 2.0",
                                       ", float[1, 2, 1] d", ", d"));
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(26, 20));
  EXPECT_THAT((*y)[1].numbers, ElementsAre(5));
}

// The first key holds 30 and shall hold 1. Half of the difference is written.
TEST(LowerLinearAttentionTest, ADeltaReplacesWhatTheKeyHolds) {
  const auto y = RunLowering(
      TwoTokens("update_rule = \"delta\"", ", float[1, 2, 1] b", ", , b"));
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(-33.5, 10));
  EXPECT_THAT((*y)[1].numbers, ElementsAre(5));
}

TEST(LowerLinearAttentionTest, QueriesOfAGroupShareAState) {
  const auto y = RunLowering(
      {.opset = 27,
       .graph = "(float[1, 1, 4] q, float[1, 1, 2] k, float[1, 1, 2] v) => "
                "(float[1, 1, 4] y) { y = LinearAttention<q_num_heads = 4, "
                "kv_num_heads = 2, update_rule = \"linear\">(q, k, v) }",
       .inputs = {{"q", Floats({1, 1, 4}, {1, 2, 3, 4})},
                  {"k", Floats({1, 1, 2}, {1, 10})},
                  {"v", Floats({1, 1, 2}, {1, 1})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(1, 2, 30, 40));
}

TEST(LowerLinearAttentionTest, ARuleWithoutItsGatesIsRefused) {
  const auto y =
      ImportLowering(TwoTokens("update_rule = \"gated_delta\"", "", ""));
  EXPECT_THAT(std::string(y.status().message()),
              HasSubstr("takes a decay and a beta"));
}

TEST(LowerLinearAttentionTest, ACausalConvolutionGoesOnFromItsState) {
  const LoweringCase one{
      .opset = 27,
      .graph =
          "(float[1, 1, 3] x, float[1, 1, 3] w, float[1] b, "
          "float[1, 1, 2] p) => (float[1, 1, 3] y, float[1, 1, 2] s) "
          "{ y, s = CausalConvWithState(x, w, b, p) }",
      .inputs = {{"x", Floats({1, 1, 3}, {1, 2, 3})},
                 {"w", Floats({1, 1, 3}, {100, 10, 1})},
                 {"b", Floats({1}, {0.5})},
                 {"p", Floats({1, 1, 2}, {8, 9})}}};
  const auto y = RunLowering(one);
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(891.5, 912.5, 123.5));
  EXPECT_THAT((*y)[1].numbers, ElementsAre(2, 3));
  LoweringCase first = one;
  first.graph =
      "(float[1, 1, 3] x, float[1, 1, 3] w) => (float[1, 1, 3] y) "
      "{ y = CausalConvWithState(x, w) }";
  const auto z = RunLowering(first);
  ASSERT_TRUE(z.ok()) << z.status();
  EXPECT_THAT((*z)[0].numbers, ElementsAre(1, 12, 123));
}

TEST(LowerLinearAttentionTest, AStateOfAnotherLengthIsRefused) {
  const auto y = ImportLowering(
      {.opset = 27,
       .graph = "(float[1, 1, 3] x, float[1, 1, 3] w, float[1, 1, 3] p) => "
                "(float[1, 1, 3] y) { y = CausalConvWithState(x, w, , p) }"});
  EXPECT_THAT(std::string(y.status().message()), HasSubstr("[1, 1, 2]"));
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
