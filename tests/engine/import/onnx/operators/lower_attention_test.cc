#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kOperands[] =
    "(float[1, 2, 2] q, float[1, 2, 2] k, float[1, 2, 2] v) => "
    "(float[1, 2, 2] y) ";

std::map<std::string, HostTensor> Operands() {
  return {{"q", Floats({1, 2, 2}, {1, 0, 0, 1})},
          {"k", Floats({1, 2, 2}, {1, 0, 0, 1})},
          {"v", Floats({1, 2, 2}, {1, 2, 3, 4})}};
}

TEST(LowerAttentionTest, FlatHeadsAreOneNodeBetweenViews) {
  const auto model = ImportLowering(
      {.opset = 23,
       .graph = std::string(kOperands) +
                "{ y = Attention<q_num_heads = 1, kv_num_heads = 1>(q, k, v) }",
       .inputs = Operands()});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(CountOps(model->graph, Op::kAttention), 1);
  EXPECT_EQ(CountOps(model->graph, Op::kSoftmax), 0);
}

TEST(LowerAttentionTest, TheFirstQuerySeesOnlyTheFirstKeyWhenCausal) {
  // A soft cap that is too high to matter takes the other code path.
  for (const char* cap : {"", ", softcap = 100000.0"}) {
    const auto y = RunLowering(
        {.opset = 23,
         .graph = std::string(kOperands) +
                  "{ y = Attention<q_num_heads = 1, kv_num_heads = 1, "
                  "is_causal = 1" +
                  cap + ">(q, k, v) }",
         .inputs = Operands()});
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_NEAR((*y)[0].numbers[0], 1, 1e-5);
    EXPECT_NEAR((*y)[0].numbers[1], 2, 1e-5);
    EXPECT_NEAR((*y)[0].numbers[2], 2.339, 1e-3);
  }
}

TEST(LowerAttentionTest, RotaryEmbeddingTurnsPairs) {
  const auto y = RunLowering(
      {.opset = 23,
       .graph = "(float[1, 1, 1, 4] x, float[1, 1, 2] c, float[1, 1, 2] s) => "
                "(float[1, 1, 1, 4] y, float[1, 1, 1, 4] z) "
                "{ y = RotaryEmbedding(x, c, s) "
                "z = RotaryEmbedding<interleaved = 1>(x, c, s) }",
       .inputs = {{"x", Floats({1, 1, 1, 4}, {1, 2, 3, 4})},
                  {"c", Floats({1, 1, 2}, {0, 1})},
                  {"s", Floats({1, 1, 2}, {1, 0})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(-3, 2, 1, 4));
  EXPECT_THAT((*y)[1].numbers, ElementsAre(-2, 1, 3, 4));
}

TEST(LowerAttentionTest, HeadsThatDoNotDivideTheWidthAreRefused) {
  const auto y = ImportLowering(
      {.opset = 23,
       .graph = std::string(kOperands) +
                "{ y = Attention<q_num_heads = 3, kv_num_heads = 1>(q, k, v) }",
       .inputs = Operands()});
  EXPECT_THAT(std::string(y.status().message()), HasSubstr("q_num_heads 3"));
}

TEST(LowerAttentionTest, TrainingKeepsWhatTheGradientNeeds) {
  for (const bool training : {false, true}) {
    const auto model = ImportLowering(
        {.opset = 23,
         .graph = "(float[1, 2, 3, 4] q, float[1, 2, 3, 4] k, "
                  "float[1, 2, 3, 4] v) => (float[1, 2, 3, 4] y) "
                  "{ y = Attention(q, k, v) }",
         .training = training});
    ASSERT_TRUE(model.ok()) << model.status();
    ASSERT_EQ(CountOps(model->graph, Op::kAttention), 1);
    for (const Node& node : model->graph.nodes()) {
      if (node.op != Op::kAttention) continue;
      EXPECT_EQ(node.outputs.size(), training ? 2u : 1u);
    }
  }
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
