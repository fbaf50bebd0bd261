#include "engine/import/onnx/graph/onnx_import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/graph/verify.h"
#include "tests/engine/import/onnx/model_text.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::StatusOr<ModelGraph> Import(const std::string& graph,
                                  const OnnxBuildOptions& options = {}) {
  const auto file =
      OnnxFile::Parse(ModelOfGraph(graph).SerializeAsString(), {});
  if (!file.ok()) return file.status();
  return ImportOnnx(**file, options);
}

constexpr char kDense[] =
    "(float[N, 2] x) => (float[N, 3] y) "
    "<float[2, 3] w = {1, 2, 3, 4, 5, 6}, float[3] b = {1, 2, 3}> "
    "{ m = MatMul(x, w) y = Add(m, b) }";

TEST(OnnxImportTest, WeightsBecomePersistentUnderTheirNames) {
  const auto model = Import(kDense);
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(model->persistents.size(), 2u);
  EXPECT_EQ(model->persistents[0].name, "w");
  EXPECT_EQ(model->persistents[0].memory_class, MemoryClass::kWeight);
  EXPECT_EQ(model->persistents[0].initializer.kind, Initializer::Kind::kStored);
  EXPECT_EQ(model->parameters(), 9u);
  EXPECT_TRUE(Verify(model->graph).ok());
}

TEST(OnnxImportTest, BuffersAreNamedWithTheRemedy) {
  const auto model = Import(
      "(float[N, 2] x) => (float[N, 2] y) <float[2, 2] w = {1, 2, 3, 4}, "
      "float[2, 2] rows = {0, -10000, 0, 0}, float[2, 2] more = {1, 0, 1, 1}> "
      "{ m = MatMul(x, w) s = Add(rows, more) t = MatMul(m, s) y = Add(t, x) "
      "}",
      {.training = true});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->parameters(), 4u);
  EXPECT_THAT(
      model->warnings,
      ::testing::Contains(AllOf(
          HasSubstr("not trained: 'rows' (its numbers are 0 or at most -10000, "
                    "as in a mask), 'more' (it is a triangle"),
          HasSubstr("name it in training.trainable"))));
}

// Operators between an empty cache and the result.
constexpr char kEmptyCache[] =
    "(float[N, P, 4] past, float[N, 2, 4] x) => (float[N, 2, 4] y, "
    "float[N, A, 4] all, float[N, P, 4] same, float[N, P, 3] product) "
    "<float[4, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, "
    "float[4] ones = {1, 1, 1, 1}, int64[3] split = {0, 0, 4}> { "
    "scaled = Relu(past) "
    "normed = LayerNormalization(scaled, ones) "
    "product = MatMul(past, w) "
    "shaped = Reshape(normed, split) "
    "all = Concat <axis = 1> (shaped, x) "
    "keys = Transpose <perm = [0, 2, 1]> (past) "
    "scores = MatMul(x, keys) "
    "p = Softmax <axis = -1> (scores) "
    "none = MatMul(p, past) "
    "same = Identity(normed) "
    "y = Add(x, none) }";

TEST(OnnxImportTest, TensorsWithoutElementsLeaveNoNodes) {
  const auto model =
      Import(kEmptyCache, {.batch = 3, .dimensions = {{"P", 0}}});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE(Verify(model->graph).ok()) << Verify(model->graph);
  ASSERT_EQ(model->inputs.size(), 2u);
  EXPECT_EQ(model->inputs[0].shape.ToString(), "[3, 0, 4]");
  EXPECT_TRUE(model->inputs[0].batched);
  EXPECT_EQ(model->outputs[0].shape, Shape({3, 2, 4}));
  EXPECT_EQ(model->outputs[1].shape, Shape({3, 2, 4}));
  EXPECT_EQ(model->outputs[2].shape.ToString(), "[3, 0, 4]");
  EXPECT_EQ(model->outputs[3].shape.ToString(), "[3, 0, 3]");
  // The concatenation is the new part, and the empty sum is zero.
  EXPECT_EQ(model->outputs[1].value, model->inputs[1].value);
  for (const Node& node : model->graph.nodes()) {
    EXPECT_EQ(node.op, Op::kAdd) << OpName(node.op);
    for (ValueId id : node.inputs) {
      EXPECT_GT(model->graph.value(id).shape.elements(), 0);
    }
  }
}

TEST(OnnxImportTest, EmptyTensorsAreConcatenatedToTheWholeShape) {
  const auto model = Import(
      "(float[N, P, 2] x, float[N, P, 3] z) => (float[N, P, 5] y) "
      "{ y = Concat <axis = 2> (x, z) }",
      {.dimensions = {{"P", 0}}});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->outputs[0].shape.ToString(), "[1, 0, 5]");
}

TEST(OnnxImportTest, DescribesEveryNode) {
  const auto model = Import(kDense, {.batch = 4});
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(model->layers.size(), 2u);
  EXPECT_EQ(model->layers[0].name, "m");
  EXPECT_EQ(model->layers[0].kind, "MatMul");
  EXPECT_EQ(model->layers[0].parameters, 6u);
  EXPECT_EQ(model->layers[0].output_shape, Shape({3}));
  EXPECT_GE(model->layers[0].flops, 12u);
}

TEST(OnnxImportTest, ANamedFirstDimensionIsTheBatch) {
  const auto model = Import(kDense, {.batch = 4});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->inputs[0].shape, Shape({4, 2}));
  EXPECT_TRUE(model->inputs[0].batched);
  EXPECT_TRUE(model->outputs[0].batched);
  EXPECT_EQ(model->input_shape, Shape({2}));
  EXPECT_EQ(model->output_shape, Shape({3}));
}

TEST(OnnxImportTest, AListedOrUnbatchedFirstDimensionIsNotTheBatch) {
  const auto listed = Import(kDense, {.batch = 4, .dimensions = {{"N", 7}}});
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_EQ(listed->inputs[0].shape, Shape({7, 2}));
  EXPECT_FALSE(listed->inputs[0].batched);
  EXPECT_FALSE(listed->outputs[0].batched);
  EXPECT_FALSE(Import(kDense, {.unbatched_inputs = {"x"}}).ok());
}

TEST(OnnxImportTest, OtherDimensionsNeedSizes) {
  const char kGraph[] =
      "(float[N, sequence] x) => (float[N, sequence] y) { y = Relu(x) }";
  const absl::Status status = Import(kGraph).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("'sequence' and has no size; give one with "
                        "`--dimension sequence=SIZE`"));
  const auto model = Import(kGraph, {.dimensions = {{"sequence", 9}}});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->inputs[0].shape, Shape({1, 9}));
}

TEST(OnnxImportTest, AnExpressionWithoutSizesNamesWhatItFollowsFrom) {
  onnx::ModelProto model = ModelOfGraph(
      "(float[N, T] x) => (float[N, T] y) "
      "{ y = Relu(x) }");
  model.mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(1)
      ->set_dim_param("past + sequence");
  const auto file = OnnxFile::Parse(model.SerializeAsString(), {});
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(std::string(ImportOnnx(**file, {}).status().message()),
              HasSubstr("dimension 1 is called 'past + sequence' and has no "
                        "size; give sizes of past, sequence, or one of its "
                        "own, with `--dimension NAME=SIZE`"));
}

TEST(OnnxImportTest, HostileSizesAreRefused) {
  for (const int64_t size : {int64_t{-3}, int64_t{1} << 62}) {
    EXPECT_EQ(Import(kDense, {.dimensions = {{"N", size}}}).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_FALSE(Import(kDense, {.batch = 0}).ok());
}

TEST(OnnxImportTest, AnInputWithAnInitializerIsAnInitializer) {
  const auto model = Import(
      "(float[2] x, float[2] w) => (float[2] y) "
      "<float[2] w = {1, 2}> { y = Add(x, w) }");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->inputs.size(), 1u);
  EXPECT_EQ(model->persistents.size(), 1u);
}

TEST(OnnxImportTest, SaysWhichInputsMustBeKnown) {
  const char kGraph[] =
      "(float[6] x, int64[2] shape) => (float[A, B] y) "
      "{ y = Reshape(x, shape) }";
  const absl::Status status = Import(kGraph).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(NeededInputs(status), ElementsAre("shape"));
  const auto model = Import(
      kGraph, {.bound = {{"shape", {DType::kInt64, Shape({2}), {2, 3}}}}});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->outputs[0].shape, Shape({2, 3}));
  EXPECT_EQ(model->inputs.size(), 1u);
  EXPECT_THAT(NeededInputs(absl::OkStatus()), IsEmpty());
}

TEST(OnnxImportTest, WithAllInputsBoundEverythingIsComputed) {
  const auto model =
      Import("(float[3] x) => (int64[A, B] y) { y = NonZero(x) }",
             {.bound = {{"x", {DType::kFloat32, Shape({3}), {0, 5, 7}}}}});
  ASSERT_TRUE(model.ok()) << model.status();
  const Value& y = model->graph.value(model->outputs[0].value);
  EXPECT_EQ(y.kind, ValueKind::kConstant);
  EXPECT_THAT(y.constant, ElementsAre(1, 2));
}

TEST(OnnxImportTest, ABoundInputMustHaveTheDeclaredType) {
  EXPECT_FALSE(
      Import(kDense, {.bound = {{"x", {DType::kInt64, Shape({1, 2}), {1, 2}}}}})
          .ok());
  EXPECT_FALSE(
      Import(kDense, {.bound = {{"x", {DType::kFloat32, Shape({1, 2}), {1}}}}})
          .ok());
}

TEST(OnnxImportTest, ListsAllUnsupportedOperatorsAtOnce) {
  const absl::Status status = Import(
                                  "(float[2] x) => (float[2] y) "
                                  "{ a = Strange(x) b = Relu(a) y = Odd(b) }")
                                  .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()),
              ::testing::AllOf(HasSubstr("Strange 'a'"), HasSubstr("Odd 'y'"),
                               ::testing::Not(HasSubstr("Relu"))));
}

TEST(OnnxImportTest, ScalesTheFirstInput) {
  const auto model = Import(kDense, {.input_scaling = true});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->persistents[0].name, "input.scale");
  EXPECT_EQ(model->persistents[0].shape, Shape({2}));
  EXPECT_EQ(model->persistents[1].name, "input.shift");
}

TEST(OnnxImportTest, PortsHaveTheIntegerTypesOfTheFile) {
  const auto model = Import(
      "(uint16[N, 2] a, int16[N, 2] b, uint32[N, 2] c, uint64[N, 2] d, "
      "int32[N, 2] e) => (uint16[N, 2] f, int16[N, 2] g, uint32[N, 2] h, "
      "uint64[N, 2] i, int32[N, 2] j) { f = Add(a, a) g = Add(b, b) "
      "h = Add(c, c) i = Add(d, d) j = Add(e, e) }");
  ASSERT_TRUE(model.ok()) << model.status();
  const std::vector<std::optional<WidenedType>> types = {
      WidenedType::kUint16, WidenedType::kInt16, WidenedType::kUint32,
      WidenedType::kUint64, std::nullopt};
  ASSERT_EQ(model->inputs.size(), types.size());
  ASSERT_EQ(model->outputs.size(), types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    EXPECT_EQ(model->inputs[i].declared, types[i]) << i;
    EXPECT_EQ(model->outputs[i].declared, types[i]) << i;
    EXPECT_EQ(model->inputs[i].dtype, model->outputs[i].dtype) << i;
    if (!types[i].has_value()) continue;
    EXPECT_EQ(model->inputs[i].dtype, HeldAs(*types[i])) << i;
  }
  // Only some numbers of UINT64 cannot be computed with.
  ASSERT_EQ(model->warnings.size(), 1u);
  EXPECT_THAT(model->warnings[0],
              HasSubstr("input 'd' is UINT64 and computed as int64: requests "
                        "with numbers above 9223372036854775807 are refused"));
}

TEST(OnnxImportTest, ABoundInputHasTheIntegerTypeOfTheFile) {
  const auto model = Import(
      "(float[N, 2] x, uint16[1] k) => (float[N, 2] y) "
      "{ c = Cast <to = 1> (k) y = Add(x, c) }",
      {.bound = {{"k", HostTensor{DType::kInt32, Shape({1}), {3}}}}});
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(model->bound.size(), 1u);
  EXPECT_EQ(model->bound[0].declared, WidenedType::kUint16);
}

TEST(OnnxImportTest, ADeclarationThatIsKnownToBeWrongIsNotServed) {
  // The quantised numbers are UINT16.
  const auto model = Import(
      "(float[N, 2] x) => (int16[N, 2] y) <float s = {1}, uint16 z = {0}> "
      "{ y = QuantizeLinear(x, s, z) }");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->outputs[0].declared, std::nullopt);
  EXPECT_EQ(model->outputs[0].dtype, DType::kInt32);
  EXPECT_THAT(model->warnings,
              ::testing::Contains(HasSubstr(
                  "output 'y' is declared as INT16, and the model computes "
                  "int32, which is served")));
  // The file declares a type that int32 does not hold.
  const auto other = Import(
      "(int32[N, 2] x) => (uint32[N, 2] y) "
      "{ y = Add(x, x) }");
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->outputs[0].declared, std::nullopt);
}

TEST(OnnxImportTest, WarnsOfOutputsThatAreDeclaredOtherwise) {
  const auto type = Import("(float[N, 2] x) => (int64[N, 2] y) { y = Relu(x) }",
                           {.batch = 4});
  ASSERT_TRUE(type.ok()) << type.status();
  EXPECT_EQ(type->outputs[0].dtype, DType::kFloat32);
  ASSERT_EQ(type->warnings.size(), 1u);
  EXPECT_THAT(type->warnings[0],
              HasSubstr("output 'y' is declared as INT64, and the model "
                        "computes float32"));
  for (const char* declared : {"float[N, 3] y", "float[N, 2, 1] y"}) {
    const auto shape = Import(
        absl::StrCat("(float[N, 2] x) => (", declared, ") { y = Relu(x) }"),
        {.batch = 4});
    ASSERT_TRUE(shape.ok()) << shape.status();
    ASSERT_EQ(shape->warnings.size(), 1u) << declared;
    EXPECT_THAT(shape->warnings[0],
                HasSubstr("and the model computes [4, 2], which is served"));
  }
}

TEST(OnnxImportTest, WarnsOfConvolutionsWhoseNormsMayBeFolded) {
  const auto model = Import(
      "(float[N, 1, 4, 4] x) => (float[N, 1, 4, 4] y) "
      "<float[1, 1, 1, 1] w = {2}, float[1] b = {1}> { y = Conv(x, w, b) }");
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(model->warnings.size(), 1u);
  EXPECT_THAT(model->warnings[0], HasSubstr("folded"));
  EXPECT_THAT(Import(kDense)->warnings, IsEmpty());
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
