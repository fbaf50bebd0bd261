#include "engine/import/onnx/graph/functions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "engine/import/onnx/graph/onnx_import.h"
#include "tests/engine/import/onnx/model_text.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Runs a call. x [2] is bound, so that the output is computed at import.
absl::StatusOr<std::vector<double>> Call(const std::string& call,
                                         const std::string& functions) {
  const auto file = OnnxFile::Parse(
      ModelFromText("<ir_version: 8, opset_import: [\"\" : 17, \"own\" : 1]> "
                    "agraph (float[2] x) => (float[2] y) { y = " +
                    call + " } " + functions)
          .SerializeAsString(),
      {});
  if (!file.ok()) return file.status();
  const auto model = ImportOnnx(
      **file, {.bound = {{"x", {DType::kFloat32, Shape({2}), {-1, 2}}}}});
  if (!model.ok()) return model.status();
  return model->graph.value(model->outputs[0].value).constant;
}

constexpr char kHeader[] =
    "<domain: \"own\", opset_import: [\"\" : 17, \"own\" : 1]> ";

TEST(FunctionsTest, FunctionsOfTheModelAreExpanded) {
  const auto y =
      Call("own.f(x)", std::string(kHeader) +
                           "f (a) => (c) { b = Neg(a) "
                           "c = own.g(b, a) } " +
                           kHeader + "g (p, q) => (r) { r = Sub(p, q) }");
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT(*y, ElementsAre(2, -4));
}

TEST(FunctionsTest, AttributesOfTheCallerReplaceReferences) {
  onnx::ModelProto model = ModelFromText(
      "<ir_version: 8, opset_import: [\"\" : 17, \"own\" : 1]> "
      "agraph (float[2] x) => (float[2] y) { y = own.f <slope = 0.5> (x) } " +
      std::string(kHeader) + "f (a) => (b) { b = LeakyRelu(a) }");
  auto* function = model.mutable_functions(0);
  function->add_attribute("slope");
  auto* attribute = function->mutable_node(0)->add_attribute();
  attribute->set_name("alpha");
  attribute->set_ref_attr_name("slope");
  attribute->set_type(onnx::AttributeProto::FLOAT);
  const auto file = OnnxFile::Parse(model.SerializeAsString(), {});
  ASSERT_TRUE(file.ok()) << file.status();
  const auto imported = ImportOnnx(
      **file, {.bound = {{"x", {DType::kFloat32, Shape({2}), {-1, 2}}}}});
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_THAT(imported->graph.value(imported->outputs[0].value).constant,
              ElementsAre(-0.5, 2));
}

TEST(FunctionsTest, CallsWithTooManyInputsAreRefused) {
  const auto y = Call("own.f(x, x)",
                      std::string(kHeader) + "f (a) => (b) { b = Relu(a) }");
  EXPECT_EQ(y.status().code(), absl::StatusCode::kInvalidArgument);
}

// Each function calls the next one ten times: 10^8 nodes from a small file.
TEST(FunctionsTest, ExpansionHasALimit) {
  std::string functions;
  for (int i = 0; i < 8; ++i) {
    functions +=
        std::string(kHeader) + "f" + std::to_string(i) + " (a0) => (a10) {";
    for (int k = 0; k < 10; ++k) {
      functions += " a" + std::to_string(k + 1) + " = " +
                   (i == 7 ? "Relu" : "own.f" + std::to_string(i + 1)) + "(a" +
                   std::to_string(k) + ")";
    }
    functions += " } ";
  }
  const auto y = Call("own.f0(x)", functions);
  EXPECT_EQ(y.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(y.status().message()), HasSubstr("400000 nodes"));
}

TEST(FunctionsTest, KnowsWhichOperatorsAreFunctions) {
  EXPECT_TRUE(HasSchemaFunction("", "SequenceMap", 17));
  EXPECT_TRUE(HasSchemaFunction("ai.onnx", "Celu", 17));
  EXPECT_FALSE(HasSchemaFunction("", "Conv", 17));
  EXPECT_FALSE(HasSchemaFunction("", "Celu", 7));
  EXPECT_FALSE(HasSchemaFunction("own", "Celu", 17));
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
