#include "engine/import/onnx/export/inference_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/engine/import/onnx/model_text.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

onnx::ModelProto Converted(const std::string& graph, int opset = 17) {
  onnx::ModelProto model = ModelOfGraph(graph);
  model.mutable_opset_import(0)->set_version(opset);
  UseInferenceNodes(model);
  return model;
}

int64_t ModeOf(const onnx::NodeProto& node, const std::string& name) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == name) return attribute.i();
  }
  return -1;
}

constexpr char kStored[] = R"(
  <float[2] one = {1, 1}, float[2] zero = {0, 0},
   float[2] mean = {3, 4}, float[2] variance = {1, 2}>)";

TEST(UseInferenceNodesTest, BatchNormsTakeTheStoredStatistics) {
  const onnx::ModelProto model = Converted(
      std::string("(float[N, 2] x) => (float[N, 2] y)") + kStored + R"({
        y, new_mean, new_variance = BatchNormalization <training_mode = 1>
            (x, one, zero, mean, variance)
      })");
  ASSERT_THAT(model.graph().node(), SizeIs(1));
  EXPECT_EQ(ModeOf(model.graph().node(0), "training_mode"), 0);
  EXPECT_THAT(model.graph().node(0).output(), ElementsAre("y"));
}

TEST(UseInferenceNodesTest, StatisticsThatAreReadAreTheStoredOnes) {
  const onnx::ModelProto model = Converted(
      std::string("(float[N, 2] x) => (float[N, 2] y, float[2] new_mean)") +
      kStored + R"({
        same = Identity(variance)
        z, new_mean, new_variance = BatchNormalization <training_mode = 1>
            (x, one, zero, mean, same)
        y = Add(z, new_variance)
      })");
  ASSERT_THAT(model.graph().node(), SizeIs(5));
  const onnx::NodeProto& first = model.graph().node(2);
  EXPECT_EQ(first.op_type(), "Identity");
  EXPECT_THAT(first.input(), ElementsAre("mean"));
  EXPECT_THAT(first.output(), ElementsAre("new_mean"));
  const onnx::NodeProto& second = model.graph().node(3);
  EXPECT_THAT(second.input(), ElementsAre("same"));
  EXPECT_THAT(second.output(), ElementsAre("new_variance"));
}

// The importer serves it with the statistics of the request, too.
TEST(UseInferenceNodesTest, StatisticsThatAreNotStoredKeepTheMode) {
  const onnx::ModelProto model =
      Converted(std::string("(float[N, 2] x, float[2] m, float[2] v) "
                            "=> (float[N, 2] y)") +
                kStored + R"({
        y, new_mean, new_variance = BatchNormalization <training_mode = 1>
            (x, one, zero, m, v)
      })");
  EXPECT_EQ(ModeOf(model.graph().node(0), "training_mode"), 1);
  EXPECT_THAT(model.graph().node(0).output(), SizeIs(3));
}

// There the number of outputs tells the mode.
TEST(UseInferenceNodesTest, BeforeOpset14OneOutputMeansInference) {
  const onnx::ModelProto model = Converted(
      std::string("(float[N, 2] x) => (float[N, 2] y)") + kStored + R"({
        y, new_mean, new_variance, saved_mean, saved_variance =
            BatchNormalization (x, one, zero, mean, variance)
      })",
      11);
  EXPECT_THAT(model.graph().node(0).output(), ElementsAre("y"));
}

TEST(UseInferenceNodesTest, DropoutsKeepEverything) {
  const onnx::ModelProto model = Converted(R"((float[N, 2] x) => (float[N, 2] y)
        <float ratio = {0.5}, bool train = {1}> {
          y = Dropout(x, ratio, train)
        })");
  EXPECT_THAT(model.graph().node(0).input(), ElementsAre("x", "ratio"));
}

TEST(UseInferenceNodesTest, BeforeOpset7AnAttributeTellsTheMode) {
  const onnx::ModelProto model = Converted(
      std::string("(float[N, 2] x) => (float[N, 2] y)") + kStored + R"({
        z = Dropout <is_test = 0> (x)
        y = BatchNormalization <is_test = 0> (z, one, zero, mean, variance)
      })",
      6);
  EXPECT_EQ(ModeOf(model.graph().node(0), "is_test"), 1);
  EXPECT_EQ(ModeOf(model.graph().node(1), "is_test"), 1);
}

TEST(UseInferenceNodesTest, GraphsInsideOfNodesAreConverted) {
  const onnx::ModelProto model = Converted(
      std::string("(bool c, float[N, 2] x) => (float[N, 2] y)") + kStored +
      R"({
        y = If (c) <
          then_branch = normed () => (float[N, 2] a) {
            a, new_mean, new_variance = BatchNormalization <training_mode = 1>
                (x, one, zero, mean, variance)
          },
          else_branch = plain () => (float[N, 2] b) { b = Identity(x) }>
      })");
  const onnx::GraphProto& branch = model.graph().node(0).attribute(0).g();
  EXPECT_EQ(ModeOf(branch.node(0), "training_mode"), 0);
  EXPECT_THAT(branch.node(0).output(), ElementsAre("a"));
}

TEST(UseInferenceNodesTest, FunctionsAreConverted) {
  onnx::ModelProto model = ModelFromText(R"(
    <ir_version: 8, opset_import: ["" : 17, "local" : 1]>
    agraph (float[N, 2] x) => (float[N, 2] y)
    <float[2] one = {1, 1}, float[2] zero = {0, 0}> {
      y = local.norm(x, one, zero, zero, one)
    }
    <domain: "local", opset_import: ["" : 17]>
    norm (a, scale, shift, mean, variance) => (b) {
      b, new_mean, new_variance = BatchNormalization <training_mode = 1>
          (a, scale, shift, mean, variance)
    })");
  UseInferenceNodes(model);
  const onnx::NodeProto& node = model.functions(0).node(0);
  EXPECT_EQ(ModeOf(node, "training_mode"), 0);
  EXPECT_THAT(node.output(), ElementsAre("b"));
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
