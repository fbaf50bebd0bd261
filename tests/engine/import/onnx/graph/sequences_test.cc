#include "engine/import/onnx/graph/sequences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/import/onnx/model_text.h"
#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;

HostTensor Six() { return Floats({6}, {1, 2, 3, 4, 5, 6}); }

TEST(SequencesTest, SplitsAndPicks) {
  const auto y =
      RunLowering({.graph = "(float[6] x) => (float[2] y, int64 n) "
                            "<int64 two = {2}, int64 last = {-1}> "
                            "{ s = SplitToSequence <axis = 0> (x, two) "
                            "y = SequenceAt(s, last) n = SequenceLength(s) }",
                   .inputs = {{"x", Six()}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(5, 6));
  EXPECT_THAT((*y)[1].numbers, ElementsAre(3));
}

TEST(SequencesTest, InsertsErasesAndJoins) {
  const auto y = RunLowering(
      {.graph = "(float[1] a, float[1] b, float[1] c) => (float[2, 1] y) "
                "<int64 first = {0}> "
                "{ s = SequenceConstruct(a, b) t = SequenceInsert(s, c, first) "
                "u = SequenceErase(t) "
                "y = ConcatFromSequence <axis = 0, new_axis = 1> (u) }",
       .inputs = {{"a", Floats({1}, {1})},
                  {"b", Floats({1}, {2})},
                  {"c", Floats({1}, {3})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_EQ((*y)[0].shape, Shape({2, 1}));
  EXPECT_THAT((*y)[0].numbers, ElementsAre(3, 1));
}

TEST(SequencesTest, OptionalsHoldOrDoNotHold) {
  const auto y =
      RunLowering({.graph = "(float[6] x) => (float[6] y, bool has) "
                            "{ o = Optional(x) has = OptionalHasElement(o) "
                            "y = OptionalGetElement(o) }",
                   .inputs = {{"x", Six()}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[1].numbers, ElementsAre(1));
}

TEST(SequencesTest, RefusesPositionsOutside) {
  for (const char* position : {"3", "-4"}) {
    const auto y = ImportLowering(
        {.graph = std::string("(float[6] x) => (float[2] y) <int64 two = {2}, "
                              "int64 at = {") +
                  position +
                  "}> { s = SplitToSequence(x, two) y = SequenceAt(s, at) }"});
    EXPECT_EQ(y.status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(SequencesTest, RefusesTensorsWhereSequencesBelong) {
  const auto y = ImportLowering({.graph = "(float[6] x) => (int64 y) "
                                          "{ y = SequenceLength(x) }"});
  EXPECT_EQ(y.status().code(), absl::StatusCode::kInvalidArgument);
  const auto z = ImportLowering({.graph = "(float[6] x) => (float[6] y) "
                                          "{ s = SequenceConstruct(x) "
                                          "y = Relu(s) }"});
  EXPECT_EQ(z.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SequencesTest, SequencesAsInputsAndOutputsAreOnePortPerElement) {
  onnx::ModelProto model =
      ModelOfGraph("(float[2] s) => (float[2] t) { t = Identity(s) }");
  onnx::TypeProto type;
  *type.mutable_sequence_type()->mutable_elem_type() =
      model.graph().input(0).type();
  *model.mutable_graph()->mutable_input(0)->mutable_type() = type;
  *model.mutable_graph()->mutable_output(0)->mutable_type() = type;
  const auto file = OnnxFile::Parse(model.SerializeAsString(), {});
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(ImportOnnx(**file, {}).status().code(),
            absl::StatusCode::kUnimplemented);
  const auto graph = ImportOnnx(**file, {.sequence_lengths = {{"s", 2}}});
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_EQ(graph->inputs.size(), 2u);
  EXPECT_EQ(graph->inputs[1].name, "s[1]");
  ASSERT_EQ(graph->outputs.size(), 2u);
  EXPECT_EQ(graph->outputs[1].name, "t[1]");
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
