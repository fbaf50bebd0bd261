#include "server/serving/text/text_tensor.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;

TEST(TextTensorTest, AConstantHasTheElementsOfItsTypeAndShape) {
  v1::TextTensor constant;
  constant.set_data_type(v1::STRING);
  constant.add_shape(1);
  constant.add_texts("a");
  const auto view = ViewConstant(constant);
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_THAT(view->texts, ElementsAre("a"));
  EXPECT_EQ(view->size(), 1u);
  constant.add_integers(1);
  EXPECT_TRUE(absl::IsInvalidArgument(ViewConstant(constant).status()));
  constant.clear_integers();
  constant.set_data_type(v1::FLOAT32);
  EXPECT_TRUE(absl::IsInvalidArgument(ViewConstant(constant).status()));
}

TEST(TextTensorTest, ElementsOfAShapeAreBounded) {
  EXPECT_EQ(*TextElements({}), 1u);
  EXPECT_EQ(*TextElements({2, 0, 3}), 0u);
  EXPECT_FALSE(TextElements({-1}).ok());
  EXPECT_FALSE(TextElements({int64_t{1} << 40, int64_t{1} << 40}).ok());
  EXPECT_EQ(*TextElements({static_cast<int64_t>(kMostTextElements)}),
            kMostTextElements);
}

}  // namespace
}  // namespace gpupool::server
