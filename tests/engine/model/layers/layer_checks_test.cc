#include "engine/model/layers/layer_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

TEST(LayerChecksTest, ShapesLeaveOutTheBatch) {
  EXPECT_EQ(ExampleShapeText({2, 3, 4}), "[3, 4]");
  EXPECT_EQ(ExampleShapeText({2}), "[]");
}

TEST(LayerChecksTest, CountsAreAtLeastOne) {
  EXPECT_TRUE(CheckCount("units", 1).ok());
  EXPECT_EQ(CheckCount("units", 0).message(),
            "units is 0 but must be at least 1");
}

TEST(LayerChecksTest, ImagesHaveThreeDimensionsAndSequencesTwo) {
  EXPECT_TRUE(CheckImage({1, 3, 4, 4}).ok());
  EXPECT_THAT(CheckImage({1, 3, 4}).message(),
              HasSubstr("its input is [3, 4]"));
  EXPECT_TRUE(CheckTokens({1, 3, 4}).ok());
  EXPECT_THAT(CheckTokens({1, 3, 4, 4}).message(),
              HasSubstr("its input is [3, 4, 4]; image_tokens"));
}

}  // namespace
}  // namespace gpupool::engine
