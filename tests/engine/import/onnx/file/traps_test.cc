#include "engine/import/onnx/file/traps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/engine/import/onnx/model_text.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

onnx::ModelProto FromPyTorch(onnx::ModelProto model) {
  model.set_producer_name("pytorch");
  return model;
}

TEST(TrapsTest, AFixedFirstDimensionIsNoBatch) {
  EXPECT_THAT(
      ModelTraps(
          ModelOfGraph("(float[1, 2] x) => (float[1, 2] y) { y = Relu(x) }")),
      ElementsAre(AllOf(HasSubstr("'x' has the fixed size 1"),
                        HasSubstr("dynamic_axes={'x': {0: 'batch'}}"))));
  EXPECT_THAT(ModelTraps(ModelOfGraph(
                  "(float[N, 2] x) => (float[N, 2] y) { y = Relu(x) }")),
              IsEmpty());
}

TEST(TrapsTest, OneInputWithANamedBatchIsEnough) {
  EXPECT_THAT(
      ModelTraps(ModelOfGraph("(float[1, 2] x, float[N, 2] z) => (float[N, 2] "
                              "y) { y = Add(x, z) }")),
      IsEmpty());
}

TEST(TrapsTest, AVectorNeedsNoBatch) {
  EXPECT_THAT(
      ModelTraps(ModelOfGraph("(float[4] x) => (float[4] y) { y = Relu(x) }")),
      IsEmpty());
}

TEST(TrapsTest, AnInitializerAmongTheInputsIsNoInput) {
  EXPECT_THAT(
      ModelTraps(ModelOfGraph("(float[N, 2] x, float[2, 2] w) => (float[N, 2] "
                              "y) <float[2, 2] w = {1, 2, 3, 4}> { y = "
                              "MatMul(x, w) }")),
      IsEmpty());
}

TEST(TrapsTest, ConvolutionsWithABiasMayHideNorms) {
  const std::string graph =
      "(float[N, 1, 2, 2] x) => (float[N, 1, 2, 2] y) <float[1, 1, 1, 1] w = "
      "{2}, float[1] b = {1}> ";
  EXPECT_THAT(ModelTraps(ModelOfGraph(graph + "{ y = Conv(x, w, b) }")),
              ElementsAre(HasSubstr("folded away at export")));
  EXPECT_THAT(ModelTraps(ModelOfGraph(graph + "{ y = Conv(x, w) }")),
              IsEmpty());
}

TEST(TrapsTest, NetsWithNormsOfOtherKindsHideNone) {
  const std::string graph =
      "(float[N, 1, 2, 2] x) => (float[N, 1, 2, 2] y) <float[1, 1, 1, 1] w = "
      "{2}, float[1] b = {1}> { c = Conv(x, w, b) y = ";
  EXPECT_THAT(
      ModelTraps(ModelOfGraph(graph + "InstanceNormalization(c, b, b) }")),
      IsEmpty());
  EXPECT_THAT(ModelTraps(ModelOfGraph(
                  graph + "GroupNormalization <num_groups = 1> (c, b, b) }")),
              IsEmpty());
  EXPECT_THAT(ModelTraps(ModelOfGraph(graph + "Relu(c) }")),
              ElementsAre(AllOf(HasSubstr("no batch, group or instance norm"),
                                HasSubstr("TrainingMode.TRAINING"))));
}

constexpr char kTwoNorms[] =
    "(float[N, 2] x) => (float[N, 2] y) <float[2] one = {1, 1}, float[2] zero "
    "= {0, 0}> { a = LayerNormalization(x, one, zero) y = "
    "LayerNormalization(a, one, zero) }";

TEST(TrapsTest, TensorsWithSeveralReadersAreTrainedAsOne) {
  EXPECT_THAT(
      TrainingTraps(ModelOfGraph(kTwoNorms)),
      ElementsAre(AllOf(HasSubstr("several nodes read 'one', 'zero' ('one': "
                                  "LayerNormalization 'a', LayerNormalization "
                                  "'y')"),
                        HasSubstr("TrainingMode.TRAINING"))));
  EXPECT_THAT(ModelTraps(ModelOfGraph(kTwoNorms)), IsEmpty());
}

TEST(TrapsTest, ATensorIsFollowedThroughIdentities) {
  EXPECT_THAT(
      TrainingTraps(ModelOfGraph(
          "(float[2, 2] x) => (float[2, 2] y) <float[2, 2] w = {1, 2, 3, 4}> "
          "{ v = Identity(w) u = Identity(v) a = MatMul(x, w) y = MatMul(a, u) "
          "}")),
      ElementsAre(HasSubstr("('w': MatMul 'a', MatMul 'y')")));
}

TEST(TrapsTest, SharedNumbersThatAreNoWeightsAreNoTrap) {
  // A scalar, a tensor of one number, integers, and the scales of a resize.
  EXPECT_THAT(
      TrainingTraps(ModelOfGraph(
          "(float[2, 2] x) => (float[2, 2] y) <float one = {1}, float[1] two = "
          "{2}, float[2] scales = {1, 1}> { a = Mul(x, one) b = Mul(a, one) c "
          "= Mul(b, two) d = Mul(c, two) e = Resize(d, , scales) y = Resize(e, "
          ", scales) }")),
      IsEmpty());
}

TEST(TrapsTest, LongListsAreCut) {
  std::string values, nodes;
  for (int i = 0; i < 5; ++i) {
    const std::string w = "w" + std::to_string(i);
    values += (i ? ", float[2] " : "float[2] ") + w + " = {1, 1}";
    nodes += " t" + std::to_string(i) + " = Add(x, " + w + ") s" +
             std::to_string(i) + " = Mul(x, " + w + ")";
  }
  EXPECT_THAT(TrainingTraps(ModelOfGraph("(float[2] x) => (float[2] t0) <" +
                                         values + "> {" + nodes + " }")),
              ElementsAre(HasSubstr("'w0', 'w1', 'w2' and 2 more")));
}

TEST(TrapsTest, AWeightIsFollowedThroughATranspose) {
  EXPECT_THAT(
      TrainingTraps(ModelOfGraph(
          "(int64[N] i) => (float[N, 2] y) <float[2, 2] w = {1, 2, 3, 4}> { e "
          "= Gather(w, i) t = Transpose(w) y = MatMul(e, t) }")),
      ElementsAre(HasSubstr("('w': Gather 'e', MatMul 'y')")));
}

TEST(TrapsTest, ANodeThatReadsATensorTwiceIsOneReader) {
  EXPECT_THAT(TrainingTraps(ModelOfGraph(
                  "(float[2, 2] x) => (float[2, 2] y) <float[2, 2] w = {1, 2, "
                  "3, 4}> { a = MatMul(w, w) y = Add(x, a) }")),
              IsEmpty());
}

TEST(TrapsTest, AbsentInputsAndOutputsDoNotCount) {
  onnx::ModelProto conv = ModelOfGraph(
      "(float[N, 1, 2, 2] x) => (float[N, 1, 2, 2] y) <float[1, 1, 1, 1] w = "
      "{2}> { y = Conv(x, w) }");
  conv.mutable_graph()->mutable_node(0)->add_input("");
  EXPECT_THAT(ModelTraps(conv), IsEmpty());
  onnx::ModelProto norm = ModelOfGraph(
      "(float[N, 2] x) => (float[N, 2] y) <float[2] s = {1, 1}, float[2] b = "
      "{0, 0}, float[2] m = {0, 0}, float[2] v = {1, 1}> { y = "
      "BatchNormalization(x, s, b, m, v) }");
  norm.mutable_graph()->mutable_node(0)->add_output("");
  norm.mutable_opset_import(0)->set_version(13);
  EXPECT_THAT(TrainingTraps(norm), IsEmpty());
}

TEST(TrapsTest, TrainingModeNeedsOperatorSet14) {
  const std::string graph =
      "(float[N, 2] x) => (float[N, 2] y) <float[2] s = {1, 1}, float[2] b = "
      "{0, 0}, float[2] m = {0, 0}, float[2] v = {1, 1}> { y, mo, vo = "
      "BatchNormalization(x, s, b, m, v) }";
  onnx::ModelProto model = ModelOfGraph(graph);
  EXPECT_THAT(TrainingTraps(model), IsEmpty());
  model.mutable_opset_import(0)->set_version(13);
  EXPECT_THAT(TrainingTraps(model),
              ElementsAre(AllOf(HasSubstr("BatchNormalization 'y'"),
                                HasSubstr("operator set 13"),
                                HasSubstr("opset_version=14"))));
}

TEST(TrapsTest, PyTorchLeavesOutDropoutInEvaluationMode) {
  const std::string graph = "(float[N, 2] x) => (float[N, 2] y) ";
  const onnx::ModelProto without =
      FromPyTorch(ModelOfGraph(graph + "{ y = Relu(x) }"));
  EXPECT_THAT(TrainingTraps(without),
              ElementsAre(HasSubstr("the file has no dropout")));
  EXPECT_THAT(
      TrainingTraps(FromPyTorch(ModelOfGraph(graph + "{ y = Dropout(x) }"))),
      IsEmpty());
  // Other producers keep it.
  EXPECT_THAT(TrainingTraps(ModelOfGraph(graph + "{ y = Relu(x) }")),
              IsEmpty());
}

TEST(TrapsTest, BuffersThatSeveralNodesReadAreNoTrap) {
  const auto model = ModelOfGraph(
      "(float[N, 2] x) => (float[N, 2] y) <float[2] t = {1, 2}> "
      "{ a = Add(x, t) y = Add(a, t) }");
  EXPECT_EQ(TrainingTraps(model).size(), 1u);
  EXPECT_THAT(TrainingTraps(model, {"t"}), IsEmpty());
}

TEST(TrapsTest, ALongListOfBuffersIsCut) {
  EXPECT_EQ(BufferTrap({{"a", "r"}, {"b", "r"}, {"c", "r"}, {"d", "r"}}),
            "taken for constant tables, which are not trained: 'a' (r), 'b' "
            "(r), 'c' (r) and 1 more; to train one, name it in "
            "training.trainable");
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
