#include "engine/graph/print.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/graph/builder.h"

namespace gpupool::engine {
namespace {

TEST(PrintTest, ShowsValuesNodesAliasesAndOutputs) {
  Graph graph;
  GraphBuilder builder(&graph);
  const TensorType type{DType::kFloat32, {2, 2}};
  const ValueId x = *builder.Input("x", type);
  const ValueId w = *builder.Persistent("w", type, MemoryClass::kWeight);
  builder.SetSource("dense_0", 0);
  const ValueId y = *builder.EmitOne(
      Op::kMatMul, {x, w},
      MatMulAttributes{.transpose_b = true,
                       .epilogue = {.activation = Activation::kRelu}});
  const ValueId z = *builder.EmitOne(Op::kAdd, {w, y});
  ASSERT_TRUE(builder.Update(z, w).ok());
  graph.AddOutput("out", y);
  EXPECT_EQ(Print(graph),
            "input %x: float32 [2, 2]\n"
            "persistent %w: float32 [2, 2]\n"
            "%dense_0/matmul.0: float32 [2, 2] = matmul(%x, %w) "
            "{transpose_b activation=relu}  # dense_0\n"
            "%dense_0/add.1: float32 [2, 2] update of %w = add(%w, "
            "%dense_0/matmul.0)  # dense_0\n"
            "output out = %dense_0/matmul.0\n");
}

TEST(PrintTest, EveryKindOfAttributesHasAText) {
  EXPECT_EQ(Print(Attributes{}), "");
  EXPECT_EQ(Print(Attributes{Conv2dAttributes{.stride = {2, 1}}}),
            "stride=2x1 padding=0x0 dilation=1x1 groups=1");
  EXPECT_EQ(Print(Attributes{Pool2dAttributes{.exclude_padding = true}}),
            "kernel=1x1 stride=1x1 padding=0x0 exclude_padding");
  EXPECT_EQ(Print(Attributes{Pool2dAttributes{.stride = {1, 2, 3},
                                              .padding = {{0, 1}, {2, 0}},
                                              .dilation = {2, 1},
                                              .ceil_mode = true}}),
            "kernel=1x1 stride=3x1x2 padding=0x1:2x0 dilation=2x1 ceil_mode");
  EXPECT_EQ(Print(Attributes{AdamAttributes{.decoupled = true}}),
            "beta1=0.9 beta2=0.999 epsilon=1e-08 weight_decay=0 decoupled");
  EXPECT_EQ(Print(Attributes{LayoutAttributes{Layout::kChannelsLast}}),
            "layout=channels_last");
  EXPECT_EQ(Print(Attributes{ShapeAttributes{{2, 3}}}), "shape=[2, 3]");
  EXPECT_EQ(Print(Attributes{LossAttributes{}}), "reduction=mean");
  EXPECT_EQ(Print(Attributes{LossAttributes{.ignore_label = 0}}),
            "reduction=mean ignore_label=0");
}

}  // namespace
}  // namespace gpupool::engine
