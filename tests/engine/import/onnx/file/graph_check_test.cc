#include "engine/import/onnx/file/graph_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/engine/import/onnx/model_text.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::HasSubstr;

onnx::ModelProto Relu() {
  return ModelOfGraph("(float[2] x) => (float[2] y) { y = Relu(x) }");
}

void ExpectRefused(const onnx::ModelProto& model, const std::string& text) {
  const absl::Status status = CheckModel(model);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

TEST(GraphCheckTest, AcceptsASoundModel) {
  EXPECT_TRUE(CheckModel(Relu()).ok());
}

TEST(GraphCheckTest, RefusesOtherVersions) {
  for (const int64_t version : {int64_t{0}, int64_t{2}, kMaxIrVersion + 1}) {
    onnx::ModelProto model = Relu();
    model.set_ir_version(version);
    ExpectRefused(model, "IR version");
  }
  for (const int64_t version : {int64_t{-1}, int64_t{0}, kMaxOpset + 1}) {
    onnx::ModelProto model = Relu();
    model.mutable_opset_import(0)->set_version(version);
    ExpectRefused(model, "operator set");
  }
  onnx::ModelProto model = Relu();
  model.clear_opset_import();
  ExpectRefused(model, "imports no version");
}

TEST(GraphCheckTest, TheStandardDomainHasTwoNames) {
  onnx::ModelProto model = Relu();
  model.mutable_opset_import(0)->set_domain("ai.onnx");
  EXPECT_TRUE(CheckModel(model).ok());
  *model.add_opset_import() = Relu().opset_import(0);
  ExpectRefused(model, "twice");
}

TEST(GraphCheckTest, RefusesAModelWithoutAGraph) {
  onnx::ModelProto model = Relu();
  model.clear_graph();
  ExpectRefused(model, "no graph");
}

TEST(GraphCheckTest, RefusesReadsBeforeWritesSoThatCyclesCannotBe) {
  ExpectRefused(ModelOfGraph("(float[2] x) => (float[2] a) "
                             "{ a = Add(x, b) b = Relu(a) }"),
                "reads 'b'");
}

TEST(GraphCheckTest, RefusesNamesThatAreDefinedTwice) {
  ExpectRefused(ModelOfGraph("(float[2] x) => (float[2] y) "
                             "{ y = Relu(x) y = Neg(x) }"),
                "defined twice");
  ExpectRefused(ModelOfGraph("(float[2] x) => (float[2] x) { x = Relu(x) }"),
                "defined twice");
  onnx::ModelProto model = Relu();
  *model.mutable_graph()->add_input() = model.graph().input(0);
  ExpectRefused(model, "defined twice");
}

TEST(GraphCheckTest, AnInitializerMayAlsoBeAnInput) {
  onnx::ModelProto model = Relu();
  auto* tensor = model.mutable_graph()->add_initializer();
  tensor->set_name("x");
  EXPECT_TRUE(CheckModel(model).ok());
  *model.mutable_graph()->add_initializer() = *tensor;
  ExpectRefused(model, "defined twice");
}

TEST(GraphCheckTest, RefusesOutputsThatNothingWrites) {
  ExpectRefused(ModelOfGraph("(float[2] x) => (float[2] z) { y = Relu(x) }"),
                "written by no node");
}

TEST(GraphCheckTest, RefusesNamesThatNoTextCanHold) {
  for (const std::string& name :
       {std::string("a\nb"), std::string("\xff"), std::string("\xc3"),
        std::string(kMaxNameLength + 1, 'a')}) {
    onnx::ModelProto model = Relu();
    model.mutable_graph()->mutable_node(0)->set_name(name);
    EXPECT_FALSE(CheckModel(model).ok());
  }
  onnx::ModelProto model = Relu();
  model.mutable_graph()->mutable_node(0)->set_name("größe/名前");
  EXPECT_TRUE(CheckModel(model).ok());
}

TEST(GraphCheckTest, SubgraphsSeeWhatIsAroundThemAndNestToALimit) {
  onnx::GraphProto inner = Relu().graph();
  inner.clear_input();
  for (int depth = 1; depth <= kMaxSubgraphDepth + 1; ++depth) {
    onnx::GraphProto outer;
    auto* node = outer.add_node();
    node->set_op_type("If");
    node->add_output("y" + std::to_string(depth));
    auto* attribute = node->add_attribute();
    attribute->set_name("then_branch");
    *attribute->mutable_g() = inner;
    outer.add_output()->set_name(node->output(0));
    inner = outer;
    onnx::ModelProto model = Relu();
    onnx::GraphProto whole = outer;
    *whole.mutable_input() = model.graph().input();
    *model.mutable_graph() = whole;
    EXPECT_EQ(CheckModel(model).ok(), depth <= kMaxSubgraphDepth) << depth;
  }
}

TEST(GraphCheckTest, RefusesTooManyNodes) {
  onnx::ModelProto model = Relu();
  for (int64_t i = 0; i < kMaxNodes; ++i) {
    model.mutable_graph()->add_node()->set_op_type("Nothing");
  }
  ExpectRefused(model, "more than 200000 nodes");
}

onnx::ModelProto WithFunctions(const std::string& functions) {
  return ModelFromText(
      "<ir_version: 8, opset_import: [\"\" : 17, \"own\" : 1]> "
      "agraph (float[2] x) => (float[2] y) { y = own.f(x) } " +
      functions);
}

TEST(GraphCheckTest, RefusesFunctionsThatCallThemselves) {
  const std::string header = "<domain: \"own\", opset_import: [\"own\" : 1]> ";
  EXPECT_TRUE(
      CheckModel(WithFunctions(header + "f (a) => (b) { b = own.g(a) }" +
                               header + "g (a) => (b) { b = Relu(a) }"))
          .ok());
  ExpectRefused(WithFunctions(header + "f (a) => (b) { b = own.f(a) }"),
                "calls itself");
  ExpectRefused(WithFunctions(header + "f (a) => (b) { b = own.g(a) }" +
                              header + "g (a) => (b) { b = own.f(a) }"),
                "calls itself");
}

TEST(GraphCheckTest, RefusesFunctionsThatReadWhatIsNotTheirs) {
  const std::string header = "<domain: \"own\", opset_import: [\"\" : 17]> ";
  ExpectRefused(WithFunctions(header + "f (a) => (b) { b = Add(a, x) }"),
                "reads 'x'");
  ExpectRefused(WithFunctions(header + "f (a) => (c) { b = Relu(a) }"),
                "written by no node");
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
