#include "engine/import/onnx/file/describe_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/engine/import/onnx/model_text.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;

v1::OnnxFacts Describe(const onnx::ModelProto& model) {
  const std::string bytes = model.SerializeAsString();
  const auto file = OnnxFile::Parse(bytes, ExternalFiles::Beneath("."));
  EXPECT_TRUE(file.ok()) << file.status();
  return file.ok() ? DescribeFile(**file) : v1::OnnxFacts();
}

std::vector<std::string> OperatorsOf(const v1::OnnxFacts& facts) {
  std::vector<std::string> texts;
  for (const auto& count : facts.operators()) {
    texts.push_back(std::to_string(count.nodes()) + " " + count.name());
  }
  return texts;
}

std::vector<std::string> StoredOf(const v1::OnnxFacts& facts) {
  std::vector<std::string> texts;
  for (const auto& stored : facts.stored()) {
    texts.push_back(stored.type() + " " + std::to_string(stored.tensors()) +
                    " " + std::to_string(stored.elements()));
  }
  return texts;
}

TEST(DescribeFileTest, VersionsProducerAndSize) {
  onnx::ModelProto model =
      ModelOfGraph("(float[N] x) => (float[N] y) { y = Relu(x) }");
  model.set_producer_name("pytorch");
  model.set_producer_version("2.1.0");
  auto* import = model.add_opset_import();
  import->set_domain("com.example");
  import->set_version(3);
  const v1::OnnxFacts facts = Describe(model);
  EXPECT_EQ(facts.ir_version(), model.ir_version());
  EXPECT_EQ(facts.producer(), "pytorch 2.1.0");
  EXPECT_EQ(facts.bytes(), model.ByteSizeLong());
  ASSERT_EQ(facts.operator_sets_size(), 2);
  EXPECT_EQ(facts.operator_sets(0).domain(), "ai.onnx");
  EXPECT_EQ(facts.operator_sets(0).version(), 17);
  EXPECT_EQ(facts.operator_sets(1).domain(), "com.example");
}

TEST(DescribeFileTest, OperatorsByCountThenName) {
  EXPECT_THAT(OperatorsOf(Describe(ModelOfGraph(
                  "(float[N] x) => (float[N] y) { a = Relu(x) b = Exp(a) c = "
                  "Relu(b) y = Abs(c) }"))),
              ElementsAre("2 Relu", "1 Abs", "1 Exp"));
}

TEST(DescribeFileTest, OperatorsOfBranchesAndOfOtherDomainsCount) {
  onnx::ModelProto model = ModelOfGraph(
      "(bool c, float[2] x) => (float[2] y) { y = If(c) <then_branch = g1 () "
      "=> (float[2] a) { a = Relu(x) }, else_branch = g2 () => (float[2] b) { "
      "b = Exp(x) }> }");
  model.mutable_graph()
      ->mutable_node(0)
      ->mutable_attribute(0)
      ->mutable_g()
      ->mutable_node(0)
      ->set_domain("com.example");
  EXPECT_THAT(OperatorsOf(Describe(model)),
              ElementsAre("1 Exp", "1 If", "1 com.example.Relu"));
}

TEST(DescribeFileTest, StoredTensorsByType) {
  EXPECT_THAT(
      StoredOf(Describe(ModelOfGraph(
          "(float[N, 2] x) => (float[N, 2] y) <int64[2] s = {1, 2}, float[2, "
          "2] w = {1, 2, 3, 4}, float[2] b = {1, 2}> { a = MatMul(x, w) c = "
          "Add(a, b) y = Identity(c) }"))),
      ElementsAre("FLOAT 2 6", "INT64 1 2"));
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
