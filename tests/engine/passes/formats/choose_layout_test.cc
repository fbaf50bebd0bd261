#include "engine/passes/formats/choose_layout.h"

#include <gmock/gmock.h>

#include "tests/engine/passes/pass_testing.h"
#include "tests/engine/testing/image_blocks.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;

class ChooseLayoutTest : public testing::PassTest {
 protected:
  ValueId Conv(ValueId x, const std::string& weight) {
    return Emit(Op::kConv2d, {x, Weight(weight, {2, 2, 1, 1})},
                Conv2dAttributes{});
  }
};

TEST_F(ChooseLayoutTest, ConvertsOnceAtEachBorderOfARegion) {
  const ValueId x = Input("x", {1, 2, 3, 3});
  const ValueId y = Conv(Emit(Op::kRelu, {Conv(x, "a")}), "b");
  const ValueId sum = Emit(Op::kAdd, {y, x});
  graph_.AddOutput("out", Emit(Op::kReshape, {sum}, ShapeAttributes{{1, 18}}));
  Run(ChooseLayout);
  EXPECT_THAT(Ops(), ElementsAre("layout_convert", "conv2d", "relu", "conv2d",
                                 "add", "layout_convert", "reshape"));
}

TEST_F(ChooseLayoutTest, WeightsAndInputsStayRowMajor) {
  graph_.AddOutput("out", Conv(Input("x", {1, 2, 3, 3}), "w"));
  Run(ChooseLayout);
  EXPECT_EQ(graph_.FindValue("x")->layout, Layout::kRowMajor);
  EXPECT_EQ(graph_.FindValue("w")->layout, Layout::kRowMajor);
}

TEST_F(ChooseLayoutTest, OutputsAreRowMajor) {
  graph_.AddOutput("out", Conv(Input("x", {1, 2, 3, 3}), "w"));
  Run(ChooseLayout);
  EXPECT_EQ(graph_.value(*graph_.FindOutput("out")).layout, Layout::kRowMajor);
  EXPECT_THAT(Ops(), ElementsAre("layout_convert", "conv2d", "layout_convert"));
}

TEST_F(ChooseLayoutTest, ImagesWithoutConvolutionsAreLeftAlone) {
  const ValueId x = Input("x", {1, 2, 4, 4});
  graph_.AddOutput("out",
                   Emit(Op::kMaxPool, {x}, Pool2dAttributes{{2, 2}, {2, 2}}));
  Run(ChooseLayout);
  EXPECT_THAT(Ops(), ElementsAre("max_pool"));
}

TEST_F(ChooseLayoutTest, WeightGradientsAreRowMajor) {
  const ValueId x = Input("x", {1, 2, 3, 3});
  const ValueId y = Conv(x, "w");
  graph_.AddOutput("dw", Emit(Op::kConv2dWeightGrad, {y, x},
                              Conv2dGradAttributes{.result = {2, 2, 1, 1}}));
  Run(ChooseLayout);
  EXPECT_EQ(graph_.value(*graph_.FindOutput("dw")).layout, Layout::kRowMajor);
  EXPECT_THAT(Ops(),
              ElementsAre("layout_convert", "conv2d", "conv2d_weight_grad"));
}

class ImageBlocksLayoutTest
    : public ::testing::TestWithParam<testing::ImageBlock> {};

TEST_P(ImageBlocksLayoutTest, NothingIsConvertedBetweenConvolutions) {
  Graph graph = GetParam().build();
  ASSERT_TRUE(ChooseLayout(graph).ok());
  ASSERT_TRUE(Verify(graph).ok()) << Verify(graph);
  std::vector<std::string> converted;
  for (const Node& node : graph.nodes()) {
    if (node.op != Op::kLayoutConvert) continue;
    // A conversion that does not move bytes costs nothing.
    const Value& x = graph.value(node.inputs[0]);
    if (!SameBytesInAnyLayout(x.shape)) converted.push_back(x.name);
  }
  const std::string y = graph.value(graph.nodes().back().inputs[0]).name;
  EXPECT_THAT(converted, ElementsAre("x", y)) << Print(graph);
}

INSTANTIATE_TEST_SUITE_P(Blocks, ImageBlocksLayoutTest,
                         ::testing::ValuesIn(testing::ImageBlocks()),
                         [](const auto& info) { return info.param.name; });

TEST_F(ChooseLayoutTest, WeightsThatBroadcastAreReadAsTheyAre) {
  const ValueId y = Conv(Input("x", {1, 2, 3, 3}), "w");
  graph_.AddOutput("out", Emit(Op::kBinary, {y, Weight("scale", {1, 2, 1, 1})},
                               BinaryAttributes{BinaryFunction::kMultiply}));
  Run(ChooseLayout);
  EXPECT_THAT(Ops(), ElementsAre("layout_convert", "conv2d", "binary",
                                 "layout_convert"));
}

TEST_F(ChooseLayoutTest, ReductionsToVectorsReadChannelsLast) {
  const ValueId y = Conv(Input("x", {1, 2, 3, 3}), "w");
  graph_.AddOutput(
      "out", Emit(Op::kReduce, {y},
                  ReduceAttributes{ReduceFunction::kMean, {2, 3}, false}));
  Run(ChooseLayout);
  EXPECT_THAT(Ops(), ElementsAre("layout_convert", "conv2d", "reduce"));
}

}  // namespace
}  // namespace gpupool::engine
