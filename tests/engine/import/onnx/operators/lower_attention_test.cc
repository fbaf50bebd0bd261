#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

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

TEST(LowerAttentionTest, AHiddenKeyStaysHiddenUnderASoftCap) {
  auto inputs = Operands();
  inputs["m"] = {DType::kBool, {2, 2}, {1, 0, 0, 1}};
  const auto y = RunLowering(
      {.opset = 23,
       .graph = "(float[1, 2, 2] q, float[1, 2, 2] k, float[1, 2, 2] v, "
                "bool[2, 2] m) => (float[1, 2, 2] y) "
                "{ y = Attention<q_num_heads = 1, kv_num_heads = 1, "
                "softcap = 2.0>(q, k, v, m) }",
       .inputs = inputs});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(1, 2, 3, 4));
}

// A mask of the smallest finite number hides nothing from a row that has no
// other: all weights are equal, as in PyTorch.
TEST(LowerAttentionTest, AQueryThatSeesNoKeyHasAResultOfZero) {
  const double no = -std::numeric_limits<double>::infinity();
  const double low = std::numeric_limits<float>::lowest();
  struct Row {
    std::string type;
    std::vector<double> mask;
    std::vector<double> y;
  };
  const Row rows[] = {{"bool", {0, 0, 0, 1}, {0, 0, 3, 4}},
                      {"float", {no, no, no, 0}, {0, 0, 3, 4}},
                      {"float", {low, low, low, 0}, {2, 3, 3, 4}}};
  for (const Row& row : rows) {
    for (const char* cap : {"", ", softcap = 100000.0"}) {
      auto inputs = Operands();
      const DType dtype = row.type == "bool" ? DType::kBool : DType::kFloat32;
      inputs["m"] = {dtype, {2, 2}, row.mask};
      const auto y = RunLowering(
          {.opset = 23,
           .graph = "(float[1, 2, 2] q, float[1, 2, 2] k, float[1, 2, 2] v, " +
                    row.type +
                    "[2, 2] m) => (float[1, 2, 2] y) "
                    "{ y = Attention<q_num_heads = 1, kv_num_heads = 1" +
                    cap + ">(q, k, v, m) }",
           .inputs = inputs});
      ASSERT_TRUE(y.ok()) << y.status();
      EXPECT_THAT((*y)[0].numbers, Pointwise(DoubleNear(1e-5), row.y));
    }
  }
}

TEST(LowerAttentionTest, CountsOfKeysEndWhatIsSeenAndPlaceTheQueries) {
  auto inputs = Operands();
  inputs["n"] = Ints({1}, {1});
  for (const char* causal : {"", ", is_causal = 1"}) {
    const auto y = RunLowering(
        {.opset = 24,
         .graph = "(float[1, 2, 2] q, float[1, 2, 2] k, float[1, 2, 2] v, "
                  "int64[1] n) => (float[1, 2, 2] y) "
                  "{ y = Attention<q_num_heads = 1, kv_num_heads = 1" +
                  std::string(causal) + ">(q, k, v, , , , n) }",
         .inputs = inputs});
    ASSERT_TRUE(y.ok()) << y.status();
    // The last of two queries is at the only key, and the first before it.
    if (*causal == '\0') {
      EXPECT_THAT((*y)[0].numbers, ElementsAre(1, 2, 1, 2));
    } else {
      EXPECT_THAT((*y)[0].numbers, ElementsAre(0, 0, 1, 2));
    }
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
  EXPECT_THAT(std::string(y.status().message()),
              HasSubstr("number of heads, 3, must divide 2"));
}

TEST(LowerAttentionTest, NoKeyAndValueHeadsAreRefused) {
  const auto y = ImportLowering(
      {.opset = 23,
       .graph = "(float[1, 2, 3, 4] q) => (float[1, 2, 3, 4] y) { "
                "n = Constant<value = int64[4] {1, 0, 3, 4}>() "
                "k = ConstantOfShape(n) y = Attention(q, k, k) }"});
  EXPECT_THAT(std::string(y.status().message()),
              HasSubstr("no multiple of 0 key and value heads"));
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
