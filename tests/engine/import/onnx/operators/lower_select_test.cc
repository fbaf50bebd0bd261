#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(LowerSelectTest, OneHotCountsNegativeIndicesFromTheEnd) {
  const auto y = RunLowering(
      {.graph = "(int64[2] i, float[2] v) => (float[2, 3] y) "
                "{ d = Constant<value_int = 3>() y = OneHot(i, d, v) }",
       .inputs = {{"i", Ints({2}, {0, -1})}, {"v", Floats({2}, {0, 5})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(5, 0, 0, 0, 0, 5));
}

TEST(LowerSelectTest, TopKTakesKFromAttributeOrInput) {
  for (const int opset : {9, 11}) {
    const auto y = RunLowering(
        {.opset = opset,
         .graph = opset < 10 ? "(float[3] x) => (float[N] v, int64[N] i) "
                               "{ v, i = TopK<k = 2>(x) }"
                             : "(float[3] x) => (float[N] v, int64[N] i) "
                               "{ k = Constant<value = int64[1] {2}>() "
                               "v, i = TopK(x, k) }",
         .inputs = {{"x", Floats({3}, {1, 3, 2})}}});
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_THAT((*y)[0].numbers, ElementsAre(3, 2));
    EXPECT_THAT((*y)[1].numbers, ElementsAre(1, 2));
  }
}

TEST(LowerSelectTest, TopKOfMoreThanThereAreIsRefused) {
  const auto y = ImportLowering({.opset = 9,
                                 .graph = "(float[3] x) => (float[N] v, "
                                          "int64[N] i) "
                                          "{ v, i = TopK<k = 4>(x) }"});
  EXPECT_EQ(y.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(LowerSelectTest, NonZeroAsksForItsInput) {
  LoweringCase one{
      .graph = "(float[3] x) => (int64[1, N] y) { y = NonZero(x) }",
      .inputs = {{"x", Floats({3}, {0, 2, 5})}}};
  EXPECT_THAT(NeededInputs(ImportLowering(one).status()), ElementsAre("x"));
  one.bound = {"x"};
  const auto y = RunLowering(one);
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(1, 2));
}

TEST(LowerSelectTest, UniqueInTheOrderOfTheFile) {
  const auto y = RunLowering(
      {.graph = "(float[4] x) => (float[N] y, int64[N] f, int64[4] i, "
                "int64[N] c) { y, f, i, c = Unique<sorted = 0>(x) }",
       .inputs = {{"x", Floats({4}, {3, 1, 3, 2})}},
       .bound = {"x"}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(3, 1, 2));
  EXPECT_THAT((*y)[1].numbers, ElementsAre(0, 1, 3));
  EXPECT_THAT((*y)[2].numbers, ElementsAre(0, 1, 0, 2));
  EXPECT_THAT((*y)[3].numbers, ElementsAre(2, 1, 1));
}

TEST(LowerSelectTest, ReverseSequenceLeavesThePadding) {
  const auto y = RunLowering(
      {.graph = "(float[2, 3] x, int64[2] n) => (float[2, 3] y) "
                "{ y = ReverseSequence<batch_axis = 0, time_axis = 1>(x, n) }",
       .inputs = {{"x", Floats({2, 3}, {1, 2, 3, 4, 5, 6})},
                  {"n", Ints({2}, {2, 3})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(2, 1, 3, 6, 5, 4));
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
