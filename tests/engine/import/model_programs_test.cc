#include "engine/import/model_programs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/graph/print.h"
#include "engine/graph/verify.h"
#include "tests/engine/testing/graph_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;
using namespace testing;  // NOLINT: the fixtures of this tree

v1::TrainingSpec Adam() {
  return TrainingFromText("cross_entropy {} adam {} batch_size: 8");
}

absl::StatusOr<ModelGraph> Train(const std::string& training) {
  return BuildTrainingGraph(DigitsModel(), {}, TrainingFromText(training));
}

// Makes `steps` steps on one random batch; returns the losses.
std::vector<double> Losses(const ModelGraph& model, int steps) {
  reference::NamedNumbers state = InitialPersistents(model, 3);
  reference::NamedNumbers inputs = RandomInputs(model.graph, 5);
  std::vector<double> losses;
  for (int step = 1; step <= steps; ++step) {
    inputs["step"] = {static_cast<double>(step)};
    auto outputs = reference::Run(model.graph, inputs, state);
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    if (!outputs.ok()) return losses;
    losses.push_back((*outputs)["loss"][0]);
  }
  return losses;
}

TEST(TrainingGraphTest, DigitsNetVerifiesAndLearnsItsBatch) {
  auto model = BuildTrainingGraph(DigitsModel(), {}, Adam());
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_TRUE(Verify(model->graph).ok()) << Verify(model->graph) << "\n"
                                         << Print(model->graph);
  const std::vector<double> losses = Losses(*model, 60);
  ASSERT_EQ(losses.size(), 60u);
  EXPECT_GT(losses.front(), 0.9);
  EXPECT_LT(losses.back(), 0.5 * losses.front());
}

TEST(TrainingGraphTest, EveryOptimizerLearns) {
  for (const char* optimizer :
       {"sgd { learning_rate: 0.1 }",
        "sgd { learning_rate: 0.1 momentum: 0.9 nesterov: true }",
        "sgd { learning_rate: 0.1 momentum: 0.5 dampening: 0.5 }", "adam {}",
        "adamw { weight_decay: 0.1 }", "adam {} clip_gradient_norm: 1"}) {
    SCOPED_TRACE(optimizer);
    auto model = Train(absl::StrCat("cross_entropy { label_smoothing: 0.1 } ",
                                    "batch_size: 8 ", optimizer));
    ASSERT_TRUE(model.ok()) << model.status();
    ASSERT_TRUE(Verify(model->graph).ok()) << Verify(model->graph);
    const std::vector<double> losses = Losses(*model, 30);
    ASSERT_EQ(losses.size(), 30u);
    EXPECT_LT(losses.back(), losses.front());
  }
}

TEST(TrainingGraphTest, NamesAndInitialisersAreThoseOfTheLayers) {
  auto model = BuildTrainingGraph(DigitsModel(), {}, Adam());
  ASSERT_TRUE(model.ok());
  std::vector<std::string> names;
  for (const auto& p : model->persistents) names.push_back(p.name);
  EXPECT_THAT(names, ::testing::IsSupersetOf(
                         {"conv2d_0.weight", "conv2d_0.bias",
                          "batch_norm_1.weight", "batch_norm_1.running_mean",
                          "batch_norm_1.running_var", "dense_8.bias",
                          "conv2d_0.weight/adam.m", "dense_8.bias/adam.v"}));
  EXPECT_EQ(names.front(), "conv2d_0.weight");
  EXPECT_DOUBLE_EQ(model->persistents.front().initializer.bound, 1.0 / 3);
  // conv 4*9+4, norm 8, dense 64*16+16 and 16*3+3.
  EXPECT_EQ(model->parameters(), 40u + 8 + 1040 + 51);
}

TEST(TrainingGraphTest, SharesNamesAndShapesWithEvalAndInference) {
  v1::Scaling scaling;
  scaling.set_multiply(0.0625);
  auto train = BuildTrainingGraph(DigitsModel(), scaling, Adam());
  auto eval = BuildEvalGraph(DigitsModel(), scaling, Adam(), 5);
  auto infer = BuildInferenceGraph(DigitsModel(), true, 2);
  ASSERT_TRUE(train.ok() && eval.ok() && infer.ok());
  for (const ModelGraph* other : {&*eval, &*infer}) {
    ASSERT_TRUE(Verify(other->graph).ok()) << Verify(other->graph);
    for (const PersistentSpec& p : other->persistents) {
      const Value* value = train->graph.FindValue(p.name);
      ASSERT_NE(value, nullptr) << p.name;
      EXPECT_EQ(value->shape, p.shape) << p.name;
    }
  }
  EXPECT_EQ(train->persistents.front().name, "input.scale");
  EXPECT_EQ(train->persistents.front().initializer.value, 0.0625);
}

TEST(EvalGraphTest, CountsOnlyTheRowsThatAreReal) {
  auto model = BuildEvalGraph(DigitsModel(), {}, Adam(), 4);
  ASSERT_TRUE(model.ok());
  reference::NamedNumbers state = InitialPersistents(*model, 1);
  reference::NamedNumbers inputs = RandomInputs(model->graph, 2);
  double parts = 0;
  double correct = 0;
  for (double rows : {1.0, 4.0}) {
    inputs["row_count"] = {rows};
    inputs["labels"] = {0, 1, 2, rows == 1 ? 0.0 : 1.0};
    auto outputs = reference::Run(model->graph, inputs, state);
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_GT((*outputs)["loss_sum"][0], parts);
    EXPECT_GE((*outputs)["correct"][0], correct);
    EXPECT_LE((*outputs)["correct"][0], rows);
    parts = (*outputs)["loss_sum"][0];
    correct = (*outputs)["correct"][0];
  }
}

TEST(TrainingGraphTest, RefusesBadTrainingSpecsByName) {
  const std::pair<const char*, const char*> cases[] = {
      {"adam {} batch_size: 1", "no loss"},
      {"cross_entropy {} batch_size: 1", "no optimizer"},
      {"cross_entropy {} adam {}", "batch size 0"},
      {"cross_entropy { label_smoothing: 1 } adam {} batch_size: 8",
       "label smoothing 1"},
      {"cross_entropy {} sgd {} batch_size: 8", "learning_rate 0"},
      {"cross_entropy {} sgd { learning_rate: nan } batch_size: 8",
       "learning_rate nan"},
      {"cross_entropy {} sgd { learning_rate: 1 momentum: 1 } batch_size: 8",
       "momentum 1"},
      {"cross_entropy {} sgd { learning_rate: 1 nesterov: true } batch_size: 8",
       "nesterov"},
      {"cross_entropy {} adam { beta1: 1 } batch_size: 8", "beta1 1"},
      {"cross_entropy {} adamw { weight_decay: -1 } batch_size: 8",
       "weight_decay -1"},
      {"cross_entropy {} adam {} clip_gradient_norm: -1 batch_size: 8",
       "clip_gradient_norm -1"},
  };
  for (const auto& [training, message] : cases) {
    auto model = Train(training);
    EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(model.status().message(), HasSubstr(message)) << training;
  }
}

TEST(TrainingGraphTest, CrossEntropyNeedsClasses) {
  auto model = BuildTrainingGraph(
      ModelFromText("input_shape: [1, 4, 4] layers { conv2d { filters: 2 "
                    "kernel: 3 } }"),
      {}, Adam());
  EXPECT_THAT(model.status().message(), HasSubstr("[2, 2, 2]"));
}

TEST(TrainingGraphTest, AModelWithoutWeightsCannotBeTrained) {
  auto model = BuildTrainingGraph(
      ModelFromText("input_shape: [4] layers { relu {} }"), {}, Adam());
  EXPECT_THAT(model.status().message(), HasSubstr("nothing to train"));
}

}  // namespace
}  // namespace gpupool::engine
