#include "engine/autodiff/gradient.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/engine/autodiff/gradient_fixture.h"
#include "tests/engine/testing/random_model.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;
using namespace testing;  // NOLINT: the fixtures of this tree

TEST_F(GradientTest, MatMulInAllTranspositionsWithBias) {
  for (int form = 0; form < 4; ++form) {
    graph_ = Graph();
    builder_ = GraphBuilder(&graph_);
    const bool ta = form & 1;
    const bool tb = form & 2;
    const ValueId a = Weight("a", ta ? Shape{4, 3} : Shape{3, 4});
    const ValueId b = Weight("b", tb ? Shape{2, 4} : Shape{4, 2});
    const ValueId bias = Weight("bias", {2});
    Check(Emit(Op::kMatMul, {a, b, bias},
               MatMulAttributes{ta, tb, {.bias = true}}));
  }
}

TEST_F(GradientTest, Conv2dWithStridePaddingDilationGroupsAndBias) {
  const Conv2dAttributes forms[] = {
      {},
      {.stride = {2, 1}, .padding = {1, 2}, .epilogue = {.bias = true}},
      {.padding = {2, 2}, .dilation = {2, 2}},
      {.stride = {2, 1}, .padding = {{1, 0}, {0, 2}}, .dilation = {1, 2}},
      {.groups = 2, .epilogue = {.bias = true}}};
  for (const Conv2dAttributes& conv : forms) {
    graph_ = Graph();
    builder_ = GraphBuilder(&graph_);
    const ValueId x = Weight("x", {2, 4, 5, 4});
    const ValueId w = Weight("w", {4, 4 / conv.groups, 3, 2});
    ValueIds inputs{x, w};
    if (conv.epilogue.bias) inputs.push_back(Weight("bias", {4}));
    Check(Emit(Op::kConv2d, inputs, conv));
  }
}

TEST_F(GradientTest, ProductsWithAResidualWithAndWithoutBias) {
  for (const bool bias : {false, true}) {
    graph_ = Graph();
    builder_ = GraphBuilder(&graph_);
    const Epilogue epilogue{.bias = bias, .residual = true};
    ValueIds inputs{Weight("a", {3, 4}), Weight("b", {4, 2})};
    if (bias) inputs.push_back(Weight("bias", {2}));
    inputs.push_back(Weight("residual", {3, 2}));
    Check(Emit(Op::kMatMul, inputs, MatMulAttributes{.epilogue = epilogue}));
    graph_ = Graph();
    builder_ = GraphBuilder(&graph_);
    inputs = {Weight("x", {1, 2, 3, 3}), Weight("w", {2, 2, 1, 1})};
    if (bias) inputs.push_back(Weight("bias", {2}));
    inputs.push_back(Weight("residual", {1, 2, 3, 3}));
    Check(Emit(Op::kConv2d, inputs, Conv2dAttributes{.epilogue = epilogue}));
  }
}

TEST_F(GradientTest, Conv2dOfVolumes) {
  const Conv2dAttributes conv{.stride = {1, 2, 2},
                              .padding = {{1, 0, 0}, {0, 1, 1}},
                              .dilation = {1, 1, 2},
                              .groups = 2};
  const ValueId x = Weight("x", {1, 2, 4, 3, 3});
  Check(Emit(Op::kConv2d, {x, Weight("w", {2, 1, 2, 2, 2})}, conv));
}

TEST_F(GradientTest, PoolsWithDilationCeilModeAndUnequalPadding) {
  for (const Op op : {Op::kMaxPool, Op::kAvgPool}) {
    SCOPED_TRACE(OpName(op));
    for (const bool exclude : {false, true}) {
      graph_ = Graph();
      builder_ = GraphBuilder(&graph_);
      const ValueId x = Weight("x", {2, 2, 5, 6});
      Check(Emit(op, {x},
                 Pool2dAttributes{.kernel = {2, 3},
                                  .stride = {2, 2},
                                  .padding = {{1, 0}, {0, 2}},
                                  .dilation = {2, 1},
                                  .ceil_mode = true,
                                  .exclude_padding = exclude,
                                  .with_argmax = op == Op::kMaxPool}));
    }
  }
}

TEST_F(GradientTest, PoolsOfVolumes) {
  for (const Op op : {Op::kMaxPool, Op::kAvgPool}) {
    SCOPED_TRACE(OpName(op));
    graph_ = Graph();
    builder_ = GraphBuilder(&graph_);
    Check(Emit(op, {Weight("x", {1, 2, 3, 3, 4})},
               Pool2dAttributes{.kernel = {2, 2, 2},
                                .stride = {1, 2, 1},
                                .dilation = {1, 1, 1},
                                .with_argmax = op == Op::kMaxPool}));
  }
}

TEST_F(GradientTest, MaxPoolWithOverlapAndPadding) {
  const ValueId x = Weight("x", {2, 2, 5, 5});
  Check(Emit(Op::kMaxPool, {x},
             Pool2dAttributes{.kernel = {3, 2},
                              .stride = {2, 1},
                              .padding = {1, 1},
                              .with_argmax = true}));
}

TEST_F(GradientTest, AvgPoolWithAndWithoutPaddingInTheDivisor) {
  for (bool exclude : {false, true}) {
    graph_ = Graph();
    builder_ = GraphBuilder(&graph_);
    const ValueId x = Weight("x", {2, 2, 5, 5});
    Check(Emit(Op::kAvgPool, {x},
               Pool2dAttributes{.kernel = {3, 3},
                                .stride = {2, 2},
                                .padding = {1, 1},
                                .exclude_padding = exclude}));
  }
}

TEST_F(GradientTest, GlobalAvgPool) {
  Check(Emit(Op::kGlobalAvgPool, {Weight("x", {2, 3, 2, 4})}));
}

TEST_F(GradientTest, Activations) {
  const std::pair<Op, Attributes> forms[] = {{Op::kRelu, {}},
                                             {Op::kGelu, GeluAttributes{false}},
                                             {Op::kGelu, GeluAttributes{true}},
                                             {Op::kSigmoid, {}},
                                             {Op::kTanh, {}},
                                             {Op::kSoftmax, {}}};
  for (const auto& [op, attributes] : forms) {
    SCOPED_TRACE(OpName(op));
    graph_ = Graph();
    builder_ = GraphBuilder(&graph_);
    Check(Emit(op, {Weight("x", {3, 4})}, attributes));
  }
}

TEST_F(GradientTest, AddOfAValueToItselfCountsTwice) {
  const ValueId x = Weight("x", {2, 3});
  Check(Emit(Op::kAdd, {x, x}));
}

TEST_F(GradientTest, ReshapeAndDropout) {
  const ValueId x = Weight("x", {2, 3, 4});
  const ValueId seed = *builder_.Input("seed", {DType::kInt64, {}});
  const ValueId step = *builder_.Input("step", {DType::kInt64, {}});
  const ValueId flat = Emit(Op::kReshape, {x}, ShapeAttributes{{4, 6}});
  Check(Emit(Op::kDropout, {flat, seed, step},
             DropoutAttributes{.probability = 0.4, .stream = 9}));
}

TEST_F(GradientTest, BatchNormOverImagesAndOverVectors) {
  for (const Shape& shape : {Shape{3, 2, 2, 3}, Shape{5, 2}}) {
    graph_ = Graph();
    builder_ = GraphBuilder(&graph_);
    Check(Emit(Op::kBatchNormTraining,
               {Weight("x", shape), Weight("gamma", {2}), Weight("beta", {2})},
               NormAttributes{.epsilon = 1e-3}));
  }
}

TEST_F(GradientTest, LayerNorm) {
  Check(
      Emit(Op::kLayerNorm,
           {Weight("x", {2, 3, 5}), Weight("gamma", {5}), Weight("beta", {5})},
           NormAttributes{.epsilon = 1e-3, .with_statistics = true}));
}

TEST_F(GradientTest, CrossEntropyWithLabelSmoothing) {
  for (double smoothing : {0.0, 0.2}) {
    graph_ = Graph();
    builder_ = GraphBuilder(&graph_);
    const ValueId logits = Weight("logits", {4, 3});
    const ValueId labels = *builder_.Input("labels", {DType::kInt64, {4}});
    graph_.AddOutput("loss",
                     Emit(Op::kCrossEntropy, {logits, labels},
                          LossAttributes{.label_smoothing = smoothing}));
    ExpectGradientsMatchDifferences(graph_, 4);
  }
}

TEST_F(GradientTest, AnOpWithoutARuleIsRefusedByName) {
  const ValueId x = Weight("x", {2, 3});
  const ValueId scale = Weight("scale", {3});
  const ValueId y = Emit(Op::kScaleShift, {x, scale, scale});
  const ValueId target = *builder_.Input("target", builder_.value(y).type());
  const ValueId loss =
      Emit(Op::kMeanSquaredError, {y, target}, LossAttributes{});
  const auto gradients = AddGradients(graph_, loss, {x});
  EXPECT_EQ(gradients.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(gradients.status().message(), HasSubstr("scale_shift"));
  EXPECT_FALSE(Info(Op::kScaleShift).differentiable);
}

TEST_F(GradientTest, RefusesWhatTheLossDoesNotDependOn) {
  const ValueId x = Weight("x", {2, 3});
  const ValueId stranger = Weight("stranger", {2});
  const ValueId target = *builder_.Input("target", builder_.value(x).type());
  const ValueId loss =
      Emit(Op::kMeanSquaredError, {x, target}, LossAttributes{});
  EXPECT_THAT(AddGradients(graph_, loss, {stranger}).status().message(),
              HasSubstr("stranger"));
}

TEST_F(GradientTest, RefusesALossThatIsNotOneComputedFloatingNumber) {
  const ValueId x = Weight("x", {2, 3});
  const ValueId y = Emit(Op::kRelu, {x});
  EXPECT_THAT(AddGradients(graph_, y, {x}).status().message(),
              HasSubstr("one floating point number"));
  const ValueId one = Weight("one", {1});
  EXPECT_THAT(AddGradients(graph_, one, {one}).status().message(),
              HasSubstr("not computed"));
  const ValueId whole = Emit(Op::kCast, {one}, CastAttributes{DType::kInt64});
  EXPECT_THAT(AddGradients(graph_, whole, {one}).status().message(),
              HasSubstr("one floating point number"));
}

// The losses are scaled, added and reshaped, so their gradients are not 1.
TEST_F(GradientTest, AnyFloatingNumberOfTheGraphIsALoss) {
  const ValueId x = Weight("x", {2, 3});
  const ValueId w = Weight("w", {1});
  const ValueId labels = *builder_.Input("labels", {DType::kInt64, {2}});
  const ValueId target = Weight("target", {2, 3});
  const ValueId entropy =
      Emit(Op::kCrossEntropy, {x, labels}, LossAttributes{});
  const ValueId squares =
      Emit(Op::kMeanSquaredError, {x, target}, LossAttributes{});
  const ValueId sum = Emit(Op::kAdd, {entropy, squares});
  graph_.AddOutput("loss", Emit(Op::kBinary, {w, sum},
                                BinaryAttributes{BinaryFunction::kMultiply}));
  ExpectGradientsMatchDifferences(graph_, 5);
}

TEST_F(GradientTest, GradientsFlowThroughFloatingValuesOnly) {
  const ValueId x = Weight("x", {2, 3});
  const ValueId positive =
      Emit(Op::kBinary, {x, builder_.Constant({DType::kFloat32, {}}, {0})},
           BinaryAttributes{BinaryFunction::kGreater});
  const ValueId mask =
      Emit(Op::kCast, {positive}, CastAttributes{DType::kFloat32});
  const ValueId sum =
      Emit(Op::kReduce, {mask}, ReduceAttributes{.axes = {0, 1}});
  EXPECT_THAT(AddGradients(graph_, sum, {x}).status().message(),
              HasSubstr("does not depend on 'x'"));
  EXPECT_THAT(AddGradients(graph_, sum, {positive}).status().message(),
              HasSubstr("holds bool"));
}

TEST_F(GradientTest, RefusesToDifferentiateThroughStatistics) {
  const ValueIds outputs = *builder_.Emit(
      Op::kLayerNorm,
      {Weight("x", {2, 3}), Weight("gamma", {3}), Weight("beta", {3})},
      NormAttributes{.with_statistics = true});
  const ValueId sum =
      Emit(Op::kReduce, {outputs[1]}, ReduceAttributes{.axes = {0}});
  const ValueId x = graph_.FindValue("x")->id;
  EXPECT_THAT(AddGradients(graph_, sum, {x}).status().message(),
              HasSubstr("layer_norm"));
}

TEST_F(GradientTest, RefusesLossesThatAreNoMeanOverAWholeBatch) {
  const ValueId x = Weight("x", {2, 3});
  const ValueId target = *builder_.Input("target", builder_.value(x).type());
  const ValueId sum = Emit(Op::kMeanSquaredError, {x, target},
                           LossAttributes{.reduction = Reduction::kSum});
  EXPECT_THAT(AddGradients(graph_, sum, {x}).status().message(),
              HasSubstr("not the mean loss"));
}

TEST_F(GradientTest, RefusesFusedNodesAndMissingStatistics) {
  const ValueId a = Weight("a", {2, 2});
  const ValueId fused =
      Emit(Op::kMatMul, {a, a},
           MatMulAttributes{.epilogue = {.activation = Activation::kRelu}});
  const ValueId target =
      *builder_.Input("target", builder_.value(fused).type());
  const ValueId loss =
      Emit(Op::kMeanSquaredError, {fused, target}, LossAttributes{});
  EXPECT_THAT(AddGradients(graph_, loss, {a}).status().message(),
              HasSubstr("fused"));
}

// Each sum of two branches' gradients adds a node while another node is being
// read. AddressSanitizer finds reads of a moved node's old place.
TEST_F(GradientTest, NodesMayMoveWhileBranchesAreAddedUp) {
  for (int branches = 1; branches < 40; ++branches) {
    graph_ = Graph();
    builder_ = GraphBuilder(&graph_);
    const ValueId weight = Weight("x", {3});
    ValueId x = weight;
    for (int i = 0; i < branches; ++i) {
      x = Emit(Op::kAdd, {x, Emit(Op::kTanh, {x})});
    }
    const ValueId target = *builder_.Input("target", builder_.value(x).type());
    const ValueId loss =
        Emit(Op::kMeanSquaredError, {x, target}, LossAttributes{});
    const auto gradients = AddGradients(graph_, loss, {weight});
    ASSERT_TRUE(gradients.ok()) << gradients.status();
  }
}

class WholeModelTest : public ::testing::TestWithParam<int> {};

TEST_P(WholeModelTest, GradientsMatchDifferences) {
  const auto seed = static_cast<uint64_t>(GetParam());
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  auto model = BuildModel(RandomModel(seed), {.batch = 2, .training = true});
  ASSERT_TRUE(model.ok()) << model.status();
  GraphBuilder builder(&model->graph);
  const Shape& shape = builder.shape(model->output);
  const ValueId labels = *builder.Input("labels", {DType::kInt64, {shape[0]}});
  model->graph.AddOutput(
      "loss", *builder.EmitOne(Op::kCrossEntropy, {model->output, labels},
                               LossAttributes{}));
  // Updates are not part of the loss.
  ExpectGradientsMatchDifferences(model->graph, seed + 100);
}

INSTANTIATE_TEST_SUITE_P(Seeds, WholeModelTest, ::testing::Range(0, 12));

}  // namespace
}  // namespace gpupool::engine
