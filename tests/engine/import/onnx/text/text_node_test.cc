#include "engine/import/onnx/text/text_node.h"

#include <string>

#include "engine/import/onnx/file/external_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "onnx/onnx_pb.h"
#include "tests/engine/import/onnx/model_text.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<TextNode> Read(const std::string& node) {
  const onnx::ModelProto model =
      ModelOfGraph("(string[n] x) => (string[n] y) { y = " + node + " }");
  return ReadTextNode(model.graph().node(0), ExternalFiles());
}

TEST(TextNodeTest, AttributesBecomeFields) {
  const auto gather = Read("Gather<axis = 1>(x, x)");
  ASSERT_TRUE(gather.ok()) << gather.status();
  EXPECT_EQ(gather->node.op(), v1::TextProgram::GATHER);
  EXPECT_EQ(gather->node.axis(), 1);
  EXPECT_THAT(gather->inputs, ElementsAre("x", "x"));
  const auto words = Read(
      "StringNormalizer<case_change_action = \"UPPER\", stopwords = "
      "[\"a\"], is_case_sensitive = 1>(x)");
  ASSERT_TRUE(words.ok()) << words.status();
  EXPECT_EQ(words->node.normalizer().change(),
            v1::TextProgram::Normalizer::UPPER);
  EXPECT_TRUE(words->node.normalizer().case_sensitive());
  EXPECT_THAT(words->node.normalizer().stopwords(), ElementsAre("a"));
}

TEST(TextNodeTest, AxesOfOlderOperatorSetsAreAnInput) {
  const auto squeeze = Read("Squeeze<axes = [1]>(x)");
  ASSERT_TRUE(squeeze.ok()) << squeeze.status();
  ASSERT_EQ(squeeze->added.size(), 1u);
  EXPECT_THAT(squeeze->added[0].integers(), ElementsAre(1));
}

TEST(TextNodeTest, AWrongNodeIsNamed) {
  const absl::Status mode =
      Read("StringNormalizer<case_change_action = \"SWAP\">(x)").status();
  EXPECT_TRUE(absl::IsInvalidArgument(mode)) << mode;
  EXPECT_THAT(std::string(mode.message()), HasSubstr("'SWAP'"));
  const absl::Status relu = Read("Relu(x)").status();
  EXPECT_TRUE(absl::IsUnimplemented(relu)) << relu;
  EXPECT_THAT(std::string(relu.message()), HasSubstr("Relu 'y'"));
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
