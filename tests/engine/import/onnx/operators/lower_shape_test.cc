#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(LowerShapeTest, SqueezeAndUnsqueezeTakeAxesFromAttributeOrInput) {
  for (const int opset : {11, 13}) {
    const std::string constant =
        opset < 13 ? "" : "a = Constant<value = int64[1] {1}>() ";
    const std::string rest =
        opset < 13 ? "z = Unsqueeze<axes = [1]>(x) y = Squeeze<axes = [1]>(z)"
                   : "z = Unsqueeze(x, a) y = Squeeze(z, a)";
    const auto y =
        RunLowering({.opset = opset,
                     .graph = "(float[2] x) => (float[2] y, float[2, 1] z) { " +
                              constant + rest + " }",
                     .inputs = {{"x", Floats({2}, {1, 2})}}});
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_EQ((*y)[0].shape, Shape({2}));
    EXPECT_EQ((*y)[1].shape, Shape({2, 1}));
  }
}

TEST(LowerShapeTest, SqueezeOfAnAxisThatIsNotOneIsRefused) {
  const auto y = ImportLowering({.opset = 11,
                                 .graph = "(float[2, 3] x) => (float[2] y) "
                                          "{ y = Squeeze<axes = [1]>(x) }"});
  EXPECT_EQ(y.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(LowerShapeTest, ReshapeKnowsZeroAndMinusOne) {
  const auto y = RunLowering(
      {.graph = "(float[2, 3, 4] x) => (float[N, M] y) "
                "{ s = Constant<value = int64[2] {0, -1}>() "
                "y = Reshape(x, s) }",
       .inputs = {{"x", Floats({2, 3, 4}, std::vector<double>(24, 1))}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_EQ((*y)[0].shape, Shape({2, 12}));
}

TEST(LowerShapeTest, HostileTargetShapesAreRefused) {
  for (const char* target :
       {"int64[2] {-1, -1}", "int64[2] {5, -1}", "int64[2] {-2, 3}",
        "int64[3] {2, 3, 0}", "int64[2] {9223372036854775807, 2}",
        "int64[9] {1, 1, 1, 1, 1, 1, 1, 2, 3}"}) {
    const auto y = ImportLowering(
        {.graph = absl::StrCat("(float[2, 3] x) => (float[N] y) "
                               "{ s = Constant<value = ",
                               target, ">() y = Reshape(x, s) }")});
    EXPECT_EQ(y.status().code(), absl::StatusCode::kInvalidArgument) << target;
  }
}

TEST(LowerShapeTest, TileRepeatsEachAxis) {
  const auto y = RunLowering(
      {.graph = "(float[1, 2] x) => (float[2, 4] y) "
                "{ r = Constant<value = int64[2] {2, 2}>() y = Tile(x, r) }",
       .inputs = {{"x", Floats({1, 2}, {1, 2})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(1, 2, 1, 2, 1, 2, 1, 2));
}

TEST(LowerShapeTest, AHugeRepeatIsRefused) {
  for (const char* repeats :
       {"1099511627776, 1099511627776", "9223372036854775807, 2", "-1, 1"}) {
    const auto y = ImportLowering(
        {.graph = absl::StrCat("(float[2, 2] x) => (float[N, M] y) "
                               "{ r = Constant<value = int64[2] {",
                               repeats, "}>() y = Tile(x, r) }")});
    EXPECT_EQ(y.status().code(), absl::StatusCode::kInvalidArgument) << repeats;
  }
}

TEST(LowerShapeTest, ShapeArithmeticLeavesNoNodes) {
  const auto model = ImportLowering(
      {.graph = "(float[2, 3, 4] x) => (float[N, M] y) "
                "{ s = Shape(x) i = Constant<value = int64[1] {0}>() "
                "n = Gather(s, i) m = Constant<value = int64[1] {-1}>() "
                "t = Concat<axis = 0>(n, m) y = Reshape(x, t) }"});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->graph.nodes().size(), 1u);
  EXPECT_EQ(model->outputs[0].shape, Shape({2, 12}));
}

TEST(LowerShapeTest, ShapeHasAStartAndAnEndSinceOpset15) {
  const auto y = RunLowering(
      {.opset = 15,
       .graph = "(float[2, 3, 4] x) => (int64[1] y) "
                "{ y = Shape<start = 1, end = -1>(x) }",
       .inputs = {{"x", Floats({2, 3, 4}, std::vector<double>(24, 1))}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(3));
}

TEST(LowerShapeTest, TransposeThatNamesAnAxisTwiceIsRefused) {
  const auto y =
      ImportLowering({.graph = "(float[2, 2] x) => (float[2, 2] y) "
                               "{ y = Transpose<perm = [0, 0]>(x) }"});
  EXPECT_EQ(y.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
