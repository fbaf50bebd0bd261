// Tests stages.cc, run_loop.cc and split_stage.cc: what an import does with
// answers.
#include "engine/import/onnx/graph/stages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/import/onnx/file/onnx_file.h"
#include "engine/import/onnx/graph/onnx_import.h"
#include "tests/engine/import/onnx/model_text.h"
#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

absl::StatusOr<ModelGraph> Stage(const std::string& graph,
                                 StageAnswers answers) {
  auto file = OnnxFile::Parse(ModelOfGraph(graph).SerializeAsString(),
                              ExternalFiles::Beneath("."));
  if (!file.ok()) return file.status();
  OnnxBuildOptions options;
  options.answers = std::move(answers);
  return ImportOnnx(**file, options);
}

std::vector<std::string> InputsOf(const ModelGraph& model) {
  std::vector<std::string> names;
  for (const Value& value : model.graph.values()) {
    if (value.kind == ValueKind::kInput) names.push_back(value.name);
  }
  return names;
}

std::vector<std::string> OutputsOf(const ModelGraph& model) {
  std::vector<std::string> names;
  for (const ModelPort& port : model.outputs) names.push_back(port.name);
  return names;
}

constexpr char kCompress[] =
    "(float[4] x) => (float[N] y) { a = Abs(x) e = Exp(x) c = Neg(x) "
    "k = Greater(x, c) z = Compress(a, k) y = Neg(z) }";

TEST(StagesTest, AStageEndsAtANumberOfRows) {
  const auto first = Stage(kCompress, {});
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_NE(first->stage_end, nullptr);
  const StageEnd& end = *first->stage_end;
  EXPECT_EQ(end.kind, StageEnd::Kind::kCompute);
  EXPECT_EQ(end.node, "Compress 'z'");
  EXPECT_EQ(end.call.most_rows, 4);
  EXPECT_THAT(InputsOf(*first), ElementsAre("x"));
  // Abs is read later, Exp by nobody.
  EXPECT_THAT(end.kept, SizeIs(1));
  EXPECT_EQ(CountOps(first->graph, Op::kUnary), 2) << "Abs and Neg";
  const auto found = end.call.run(
      {{{DType::kBool, Shape({4})}, std::vector<double>{0, 1, 0, 1}}});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->rows, 2);
  EXPECT_THAT(found->tensors[0].numbers, ElementsAre(1, 3));
}

TEST(StagesTest, TheNextStageReadsWhatTheFirstKept) {
  const auto first = Stage(kCompress, {});
  const auto next = Stage(kCompress, {2});
  ASSERT_TRUE(first.ok() && next.ok()) << next.status();
  EXPECT_EQ(next->stage_end, nullptr);
  EXPECT_THAT(InputsOf(*next),
              UnorderedElementsAre(
                  first->stage_end->kept[0],
                  StageInputName(first->stage_end->place, "result", 0)));
  EXPECT_THAT(OutputsOf(*next), ElementsAre("y"));
  EXPECT_EQ(next->outputs[0].shape, Shape({2}));
  EXPECT_THAT(next->inputs, SizeIs(1)) << "the model's inputs";
}

TEST(StagesTest, WithoutRowsNothingIsLeftToRun) {
  const auto next = Stage(kCompress, {0});
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_THAT(next->graph.nodes(), IsEmpty());
  EXPECT_EQ(next->outputs[0].shape.elements(), 0);
}

TEST(StagesTest, KnownNumbersEndNoStage) {
  const auto model = Stage(
      "(float[4] x) => (float[N] y) <bool[4] k = {1, 0, 0, 1}> "
      "{ y = Compress(x, k) }",
      {});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->stage_end, nullptr);
  EXPECT_EQ(model->outputs[0].shape, Shape({2}));
}

constexpr char kWhile[] =
    "(float x) => (float y) <bool start = {1}, float most = {100}> {"
    "y = Loop (_, start, x) <body = b (int64 i, bool go, float s) => "
    "(bool next, float t) { t = Add(s, s) next = Less(t, most) }> }";

TEST(StagesTest, ALoopIsItsBodyAndWhatFollows) {
  const auto before = Stage(kWhile, {});
  ASSERT_TRUE(before.ok()) << before.status();
  ASSERT_NE(before->stage_end, nullptr);
  EXPECT_EQ(before->stage_end->kind, StageEnd::Kind::kLoop);
  EXPECT_EQ(before->stage_end->goes_on, true);
  EXPECT_FALSE(before->stage_end->trips.has_value());
  StageAnswers enter{kEnterLoop};
  AppendType({DType::kFloat32, Shape()}, enter);
  const auto body = Stage(kWhile, enter);
  ASSERT_TRUE(body.ok()) << body.status();
  ASSERT_NE(body->stage_end, nullptr);
  EXPECT_EQ(body->stage_end->kind, StageEnd::Kind::kIteration);
  EXPECT_FALSE(body->stage_end->goes_on.has_value());
  EXPECT_THAT(body->stage_end->reads, SizeIs(1));
  StageAnswers leave{kLeaveLoop, 5};
  AppendType({DType::kFloat32, Shape()}, leave);
  const auto after = Stage(kWhile, leave);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->stage_end, nullptr);
  EXPECT_THAT(InputsOf(*after),
              ElementsAre(StageInputName(body->stage_end->place, "state", 0)));
}

TEST(StagesTest, WeightsAreNotPassedOn) {
  const auto next = Stage(
      "(float[2] x) => (float[N] y) <float[2] w = {1, 2}> { v = Exp(w) "
      "p = NonZero(x) f = Cast <to = 1> (p) y = Add(f, v) }",
      {2});
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_THAT(InputsOf(*next), SizeIs(1)) << "only the positions";
  EXPECT_THAT(next->persistents, SizeIs(1));
}

TEST(StagesTest, NothingMayDecideInAScan) {
  const auto model = Stage(
      "(float[3, 2] x) => (float[3] y) <float zero = {0}> { "
      "y = Scan (x) <num_scan_inputs = 1, body = b (float[2] r) => (float q) "
      "{ s = ReduceSum <keepdims = 0> (r) c = Greater(s, zero) q = If (c) <"
      "then_branch = t () => (float a) { a = Neg(s) }, "
      "else_branch = e () => (float d) { d = Abs(s) }> }> }",
      {});
  EXPECT_THAT(model.status().message(), HasSubstr("inside of a Scan"));
  EXPECT_THAT(model.status().message(), HasSubstr("If 'q'"));
}

TEST(StagesTest, AnOutputThatALoopStacksNamesTheLoop) {
  const std::string rows =
      "(float x) => (float y, float[N] all, float[N] other) "
      "<bool start = {1}, float most = {100}> {"
      "y, all = Loop (_, start, x) <body = b (int64 i, bool go, float s) => "
      "(bool next, float t, float row) { t = Add(s, s) next = Less(t, most) "
      "row = Identity(t) }> other = Neg(all) }";
  StageAnswers leave{kLeaveLoop, 5};
  AppendType({DType::kFloat32, Shape()}, leave);
  AppendType({DType::kFloat32, Shape()}, leave);
  const auto after = Stage(rows, leave);
  ASSERT_TRUE(after.ok()) << after.status();
  ASSERT_THAT(after->outputs, SizeIs(3));
  EXPECT_EQ(after->outputs[0].loop, "") << "carried";
  EXPECT_EQ(after->outputs[1].loop, "y") << "a Loop without a name";
  EXPECT_EQ(after->outputs[2].loop, "") << "computed from rows";
}

TEST(StagesTest, ALoopOfKnownLengthWithAComputedBranchRuns) {
  const auto model = Stage(
      "(float x) => (float y) <int64 n = {5}, float zero = {0}> { "
      "y = Loop (n, , x) <body = b (int64 i, bool go, float s) => "
      "(bool next, float q) { next = Identity(go) c = Greater(s, zero) "
      "q = If (c) <then_branch = t () => (float a) { a = Neg(s) }, "
      "else_branch = e () => (float d) { d = Abs(s) }> }> }",
      {});
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_NE(model->stage_end, nullptr);
  EXPECT_EQ(model->stage_end->kind, StageEnd::Kind::kLoop);
  EXPECT_EQ(model->stage_end->trips, 5);
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
