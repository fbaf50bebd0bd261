#include "server/serving/text/text_labels.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/serving/text/text_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

v1::TextProgram::Node FloatNames() {
  v1::TextProgram::Node node;
  v1::TextTensor& keys = *node.add_tables();
  keys.set_data_type(v1::FLOAT32);
  keys.add_shape(2);
  keys.add_floats(0);
  keys.add_floats(kNan);
  v1::TextTensor& values = *node.add_tables();
  values.set_data_type(v1::STRING);
  values.add_shape(2);
  values.add_texts("zero");
  values.add_texts("none");
  v1::TextTensor& other = *node.add_tables();
  other.set_data_type(v1::STRING);
  other.add_shape(1);
  other.add_texts("other");
  return node;
}

TEST(TextLabelsTest, NumbersBecomeTexts) {
  const v1::TextProgram::Node node = FloatNames();
  const auto labels = TextLabels::Create(node);
  ASSERT_TRUE(labels.ok()) << labels.status();
  TextMemory memory;
  EXPECT_THAT(labels->Run(FloatsOf({-0.0, kNan, 3}, {3}), memory)->texts,
              ElementsAre("zero", "none", "other"));
  EXPECT_TRUE(absl::IsInvalidArgument(
      labels->Run(TextsOf({"zero"}, {1}), memory).status()));
}

TEST(TextLabelsTest, TablesOfOtherSizesAreRefused) {
  v1::TextProgram::Node node = FloatNames();
  node.mutable_tables(1)->add_texts("more");
  node.mutable_tables(1)->set_shape(0, 3);
  EXPECT_TRUE(absl::IsInvalidArgument(TextLabels::Create(node).status()));
  node = FloatNames();
  node.mutable_tables()->RemoveLast();
  EXPECT_TRUE(absl::IsInvalidArgument(TextLabels::Create(node).status()));
}

}  // namespace
}  // namespace gpupool::server
