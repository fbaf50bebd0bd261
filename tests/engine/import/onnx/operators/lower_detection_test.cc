#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

LoweringCase Boxes(double overlap) {
  return {
      .graph = absl::StrCat(
          "(float[1, 3, 4] b, float[1, 1, 3] s) => (int64[N, 3] y) "
          "{ m = Constant<value_int = 3>() o = Constant<value_float = ",
          overlap, ">() y = NonMaxSuppression(b, s, m, o) }"),
      .inputs = {{"b", Floats({1, 3, 4}, {0, 0, 2, 2, 0, 1, 2, 3, 5, 5, 6, 6})},
                 {"s", Floats({1, 1, 3}, {0.5, 0.9, 0.7})}},
      .bound = {"b", "s"}};
}

TEST(LowerDetectionTest, DropsWhatOverlapsABetterBox) {
  // The first two boxes share a third of their union.
  const auto strict = RunLowering(Boxes(0.25));
  ASSERT_TRUE(strict.ok()) << strict.status();
  EXPECT_THAT((*strict)[0].numbers, ElementsAre(0, 0, 1, 0, 0, 2));
  const auto loose = RunLowering(Boxes(0.5));
  ASSERT_TRUE(loose.ok()) << loose.status();
  EXPECT_THAT((*loose)[0].numbers, ElementsAre(0, 0, 1, 0, 0, 2, 0, 0, 0));
}

TEST(LowerDetectionTest, AsksForBoxesAndScores) {
  LoweringCase one = Boxes(0.5);
  one.bound.clear();
  EXPECT_FALSE(NeededInputs(ImportLowering(one).status()).empty());
}

TEST(LowerDetectionTest, ScoresOfOtherBoxesAreRefused) {
  LoweringCase one = Boxes(0.5);
  one.inputs["s"] = Floats({1, 1, 2}, {0.5, 0.9});
  EXPECT_EQ(ImportLowering(one).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
