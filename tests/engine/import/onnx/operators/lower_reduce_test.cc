#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(LowerReduceTest, AxesAreAnAttributeThenAnInput) {
  const auto attribute =
      RunLowering({.opset = 11,
                   .graph = "(float[2, 2] x) => (float[2] y) "
                            "{ y = ReduceSum<axes = [0], keepdims = 0>(x) }",
                   .inputs = {{"x", Floats({2, 2}, {1, 2, 3, 4})}}});
  ASSERT_TRUE(attribute.ok()) << attribute.status();
  EXPECT_THAT((*attribute)[0].numbers, ElementsAre(4, 6));
  const auto input =
      RunLowering({.opset = 13,
                   .graph = "(float[2, 2] x) => (float[2] y) "
                            "{ a = Constant<value = int64[1] {-1}>() "
                            "y = ReduceSum<keepdims = 0>(x, a) }",
                   .inputs = {{"x", Floats({2, 2}, {1, 2, 3, 4})}}});
  ASSERT_TRUE(input.ok()) << input.status();
  EXPECT_THAT((*input)[0].numbers, ElementsAre(3, 7));
}

TEST(LowerReduceTest, EmptyAxesMeanAllOrNone) {
  LoweringCase one{.opset = 13,
                   .graph =
                       "(float[2] x) => (float[2] y) "
                       "{ "
                       "y = ReduceSum<noop_with_empty_axes = 1>(x) }",
                   .inputs = {{"x", Floats({2}, {1, 2})}}};
  const auto none = RunLowering(one);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_THAT((*none)[0].numbers, ElementsAre(1, 2));
  one.graph = "(float[2] x) => (float[1] y) { y = ReduceSum(x) }";
  const auto all = RunLowering(one);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_THAT((*all)[0].numbers, ElementsAre(3));
}

TEST(LowerReduceTest, AnAxisOutOfRangeOrNamedTwiceIsRefused) {
  for (const char* axes : {"[2]", "[-3]", "[0, -2]"}) {
    const auto y =
        ImportLowering({.opset = 11,
                        .graph = absl::StrCat("(float[2, 2] x) => (float[2] y) "
                                              "{ y = ReduceMean<axes = ",
                                              axes, ">(x) }")});
    EXPECT_EQ(y.status().code(), absl::StatusCode::kInvalidArgument) << axes;
  }
}

TEST(LowerReduceTest, LogSumExpDoesNotOverflow) {
  const auto y =
      RunLowering({.opset = 13,
                   .graph = "(float[2] x) => (float y) "
                            "{ y = ReduceLogSumExp<keepdims = 0>(x) }",
                   .inputs = {{"x", Floats({2}, {1000, 1000})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_EQ((*y)[0].shape.rank(), 0);
  EXPECT_NEAR((*y)[0].numbers[0], 1000.693, 1e-3);
}

std::vector<double> Products(const std::string& attributes) {
  const auto y =
      RunLowering({.opset = 26,
                   .graph = "(float[5, 1] x) => (float[5, 1] y) "
                            "{ a = Constant<value = int64 {0}>() y = CumProd" +
                            attributes + "(x, a) }",
                   .inputs = {{"x", Floats({5, 1}, {2, -1, 3, 0.5, 4})}}});
  EXPECT_TRUE(y.ok()) << y.status();
  return y.ok() ? (*y)[0].numbers : std::vector<double>();
}

TEST(LowerReduceTest, ProductsCumulateFromEitherEnd) {
  EXPECT_THAT(Products(""), ElementsAre(2, -2, -6, -3, -12));
  EXPECT_THAT(Products("<exclusive = 1>"), ElementsAre(1, 2, -2, -6, -3));
  EXPECT_THAT(Products("<reverse = 1>"), ElementsAre(-12, -6, 6, 2, 4));
  EXPECT_THAT(Products("<exclusive = 1, reverse = 1>"),
              ElementsAre(-6, 6, 2, 4, 1));
}

TEST(LowerReduceTest, AxesThatDependOnAnInputAreAskedFor) {
  const LoweringCase one{
      .opset = 13,
      .graph =
          "(float[2] x, int64[1] a) => (float[1] y) "
          "{ y = ReduceSum(x, a) }",
      .inputs = {{"x", Floats({2}, {1, 2})}, {"a", Ints({1}, {0})}}};
  const auto unbound = ImportLowering(one);
  EXPECT_EQ(unbound.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(NeededInputs(unbound.status()), ElementsAre("a"));
  LoweringCase bound = one;
  bound.bound = {"a"};
  const auto y = RunLowering(bound);
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(3));
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
