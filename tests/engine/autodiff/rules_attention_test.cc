#include <gmock/gmock.h>

#include <limits>

#include "tests/engine/autodiff/gradient_fixture.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

class ProductRuleTest : public GradientTest {
 protected:
  // Returns inputs of attention with 2 x 2 heads, 3 queries and 4 keys.
  ValueIds AttentionInputs() {
    return {Weight("q", {2, 2, 3, 5}), Weight("k", {2, 2, 4, 5}),
            Weight("v", {2, 2, 4, 2})};
  }

  std::string Error(ValueId y, ValueId with_respect_to) {
    const ValueId target = *builder_.Input("target", builder_.value(y).type());
    const ValueId loss =
        Emit(Op::kMeanSquaredError, {y, target}, LossAttributes{});
    const auto gradients = AddGradients(graph_, loss, {with_respect_to});
    EXPECT_EQ(gradients.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(gradients.status().message());
  }

  bool Emits(Op op, const Shape& shape) const {
    for (const Node& node : graph_.nodes()) {
      if (node.op == op && graph_.value(node.outputs[0]).shape == shape) {
        return true;
      }
    }
    return false;
  }
};

// Leading axes of a and of b.
struct Leading {
  std::vector<int64_t> a, b;
};

Shape Matrix(std::vector<int64_t> leading, bool transposed, int64_t rows,
             int64_t columns) {
  leading.push_back(transposed ? columns : rows);
  leading.push_back(transposed ? rows : columns);
  return *Shape::Create(leading);
}

TEST_F(ProductRuleTest, BatchMatMulInAllTranspositionsAndBroadcasts) {
  const Leading forms[] = {{{2, 3}, {2, 3}}, {{2}, {}},        {{}, {2}},
                           {{2, 1}, {3}},    {{1, 3}, {2, 1}}, {{2, 2}, {1}}};
  for (const Leading& leading : forms) {
    for (int form = 0; form < 4; ++form) {
      SCOPED_TRACE(absl::StrCat("leading ranks ", leading.a.size(), " and ",
                                leading.b.size(), ", form ", form));
      Reset();
      const bool ta = form & 1;
      const bool tb = form & 2;
      const ValueId a = Weight("a", Matrix(leading.a, ta, 3, 4));
      const ValueId b = Weight("b", Matrix(leading.b, tb, 4, 2));
      Check(Emit(Op::kBatchMatMul, {a, b}, BatchMatMulAttributes{ta, tb, 0.5}));
    }
  }
}

TEST_F(ProductRuleTest, OneMatrixForAllBatchesTakesOneProductForItsGradient) {
  const ValueId a = Weight("a", {5, 3, 4});
  const ValueId b = Weight("b", {4, 2});
  const ValueId y = Emit(Op::kBatchMatMul, {a, b}, BatchMatMulAttributes{});
  const ValueId target = *builder_.Input("target", builder_.value(y).type());
  const ValueId loss =
      Emit(Op::kMeanSquaredError, {y, target}, LossAttributes{});
  ASSERT_TRUE(AddGradients(graph_, loss, {b}).ok());
  EXPECT_TRUE(Emits(Op::kBatchMatMul, {4, 2}));
  EXPECT_FALSE(Emits(Op::kBatchMatMul, {5, 4, 2}));
}

TEST_F(ProductRuleTest, Attention) {
  const AttentionAttributes forms[] = {
      {.scale = 0.7, .with_lse = true},
      {.scale = 0.7, .causal = true, .with_lse = true}};
  for (const AttentionAttributes& attention : forms) {
    Reset();
    Check(Emit(Op::kAttention, AttentionInputs(), attention));
  }
}

TEST_F(ProductRuleTest, AttentionWithAMaskThatHidesAllKeysOfAQuery) {
  ValueIds inputs = AttentionInputs();
  constexpr double kNo = -std::numeric_limits<double>::infinity();
  inputs.push_back(
      builder_.Constant({DType::kFloat32, {3, 4}},
                        {0, 0.5, kNo, 1, kNo, kNo, kNo, kNo, 0, kNo, -0.5, 0}));
  Check(Emit(Op::kAttention, inputs,
             AttentionAttributes{.scale = 0.5, .with_lse = true}));
}

TEST_F(ProductRuleTest, AttentionWithoutLseHasNone) {
  const ValueIds inputs = AttentionInputs();
  EXPECT_THAT(
      Error(Emit(Op::kAttention, inputs, AttentionAttributes{}), inputs[0]),
      HasSubstr("without lse"));
}

// A learned bias, as of Swin and T5, is repeated along some axes.
TEST_F(ProductRuleTest, AttentionWithATrainedMaskOfAnyShape) {
  const Shape shapes[] = {{3, 4},       {4},          {2, 3, 4},   {3, 1},
                          {2, 1, 1, 4}, {2, 2, 3, 4}, {1, 2, 1, 1}};
  for (const Shape& shape : shapes) {
    for (const bool causal : {false, true}) {
      Reset();
      ValueIds masked = AttentionInputs();
      masked.push_back(Weight("mask", shape));
      Check(Emit(Op::kAttention, masked,
                 AttentionAttributes{
                     .scale = 0.7, .causal = causal, .with_lse = true}));
    }
  }
}

TEST_F(ProductRuleTest, AMaskThatHidesAllKeysOfAQueryHasAGradientOfZero) {
  ValueIds inputs = AttentionInputs();
  constexpr double kNo = -std::numeric_limits<double>::infinity();
  const ValueId hides = builder_.Constant(
      {DType::kFloat32, {3, 4}}, {0, 0, 0, 0, kNo, kNo, kNo, kNo, 0, 0, 0, 0});
  inputs.push_back(Emit(Op::kBinary, {Weight("mask", {3, 4}), hides},
                        BinaryAttributes{.function = BinaryFunction::kAdd}));
  Check(Emit(Op::kAttention, inputs,
             AttentionAttributes{.scale = 0.5, .with_lse = true}));
}

TEST_F(ProductRuleTest, LrnWithOddAndEvenWindows) {
  for (int64_t size : {1, 2, 3, 9}) {
    Reset();
    Check(Emit(
        Op::kLrn, {Weight("x", {2, 5, 3})},
        LrnAttributes{.alpha = 0.8, .beta = 0.6, .bias = 1.5, .size = size}));
  }
}

TEST_F(ProductRuleTest, LogSoftmax) {
  Check(Emit(Op::kLogSoftmax, {Weight("x", {3, 4})}));
}

TEST_F(ProductRuleTest, TransposedConvolution) {
  const Conv2dAttributes forms[] = {{.stride = {2, 1}, .padding = {1, 0}},
                                    {.dilation = {1, 2}, .groups = 2}};
  for (const Conv2dAttributes& conv : forms) {
    Reset();
    // The shape of the convolution's input, which is the output here.
    const Shape y{2, 4, 6, 5};
    const Shape w{6, 4 / conv.groups, 3, 2};
    auto x =
        InferTypes(Op::kConv2d, conv,
                   TensorTypes{{DType::kFloat32, y}, {DType::kFloat32, w}});
    ASSERT_TRUE(x.ok()) << x.status();
    Check(Emit(Op::kConv2dInputGrad,
               {Weight("x", x->front().shape), Weight("w", w)},
               Conv2dGradAttributes{.conv = conv, .result = y}));
  }
}

}  // namespace
}  // namespace gpupool::engine
