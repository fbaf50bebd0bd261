#include "engine/model/model_programs.h"

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

// Makes `steps` steps on one random batch and returns the losses.
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
        "adamw { weight_decay: 0.1 }", "adam {} clip_gradient_norm: 1",
        "rmsprop {}", "rmsprop { momentum: 0.5 centered: true }", "adagrad {}",
        "lion {}", "adamax {}", "adam {} clip_gradient_value: 0.1"}) {
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

// Returns the names that the graph overwrites.
std::vector<std::string> UpdatedNames(const Graph& graph) {
  std::vector<std::string> names;
  for (const Value& value : graph.values()) {
    if (value.alias.kind == AliasKind::kUpdate) {
      names.push_back(graph.value(value.alias.of).name);
    }
  }
  return names;
}

constexpr char kPlainNet[] =
    "input_shape: [4] layers { dense { units: 5 } } layers { tanh {} } "
    "layers { dense { units: 3 } }";

TEST(TrainingGraphTest, AccumulatedBatchesAreOneLargeBatch) {
  const auto spec = ModelFromText(kPlainNet);
  const auto source = *ModelSource::Open(spec, "");
  const std::string rest =
      "cross_entropy {} clip_gradient_norm: 0.5 "
      "sgd { learning_rate: 0.1 momentum: 0.9 } ";
  const auto large = BuildTrainingGraph(
      *source, {}, TrainingFromText(rest + "batch_size: 12"));
  const auto training =
      TrainingFromText(rest + "batch_size: 4 accumulate_batches: 3");
  const auto last = BuildTrainingGraph(*source, {}, training);
  const auto others = BuildAccumulationGraph(*source, {}, training);
  ASSERT_TRUE(large.ok() && last.ok() && others.ok())
      << last.status() << others.status();
  ASSERT_TRUE(Verify(others->graph).ok()) << Verify(others->graph);
  ASSERT_TRUE(Verify(last->graph).ok()) << Verify(last->graph);
  reference::NamedNumbers expected = InitialPersistents(*large, 3);
  reference::NamedNumbers state = expected;
  for (const Value& value : others->graph.values()) {
    if (value.kind != ValueKind::kPersistent || state.count(value.name) > 0) {
      continue;
    }
    state[value.name].assign(static_cast<size_t>(value.shape.elements()), 0);
  }
  for (int step = 1; step <= 3; ++step) {
    reference::NamedNumbers inputs =
        RandomInputs(large->graph, static_cast<uint64_t>(step));
    inputs["step"] = {static_cast<double>(step)};
    auto whole = reference::Run(large->graph, inputs, expected);
    ASSERT_TRUE(whole.ok()) << whole.status();
    double loss = 0;
    for (int batch = 0; batch < 3; ++batch) {
      reference::NamedNumbers part = inputs;
      for (const char* name : {"input", "labels"}) {
        const reference::Numbers& all = inputs[name];
        const auto size = static_cast<std::ptrdiff_t>(all.size() / 3);
        part[name].assign(all.begin() + batch * size,
                          all.begin() + (batch + 1) * size);
      }
      auto outputs =
          reference::Run(batch == 2 ? last->graph : others->graph, part, state);
      ASSERT_TRUE(outputs.ok()) << outputs.status();
      loss += (*outputs)["loss"][0] / 3;
    }
    EXPECT_NEAR(loss, (*whole)["loss"][0], 1e-12);
    for (const auto& [name, numbers] : expected) {
      EXPECT_LT(Distance(state[name], numbers), 1e-9) << name << " " << step;
    }
  }
}

TEST(TrainingGraphTest, WithAccumulationDropoutCountsBatches) {
  const auto source = *ModelSource::Open(DigitsModel(), "");
  const auto training = TrainingFromText(
      "cross_entropy {} adam {} batch_size: 4 "
      "accumulate_batches: 2");
  for (const auto& model : {BuildTrainingGraph(*source, {}, training),
                            BuildAccumulationGraph(*source, {}, training)}) {
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_NE(model->graph.FindValue("batch"), nullptr);
  }
}

TEST(TrainingGraphTest, GradientsAreClampedByValue) {
  // With plain SGD at rate 1, a weight changes by its gradient.
  auto model = Train(
      "cross_entropy {} sgd { learning_rate: 1 } batch_size: 8 "
      "clip_gradient_value: 0.001");
  ASSERT_TRUE(model.ok()) << model.status();
  reference::NamedNumbers state = InitialPersistents(*model, 3);
  const reference::NamedNumbers before = state;
  reference::NamedNumbers inputs = RandomInputs(model->graph, 5);
  inputs["learning_rate"] = {1};
  ASSERT_TRUE(reference::Run(model->graph, inputs, state).ok());
  double furthest = 0;
  for (const char* name : {"conv2d_0.weight", "dense_8.weight"}) {
    ASSERT_EQ(before.count(name), 1u) << name;
    for (size_t i = 0; i < state[name].size(); ++i) {
      furthest =
          std::max(furthest, std::abs(state[name][i] - before.at(name)[i]));
    }
  }
  EXPECT_NEAR(furthest, 0.001, 1e-9);
}

TEST(TrainingGraphTest, AveragesFollowTheUpdatedWeights) {
  const auto source = *ModelSource::Open(ModelFromText(kPlainNet), "");
  const auto training = TrainingFromText(
      "cross_entropy {} sgd { learning_rate: 0.1 } batch_size: 4 "
      "ema { decay: 0.75 } freeze: 'dense_0.bias'");
  auto model = BuildTrainingGraph(*source, {}, training);
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_TRUE(Verify(model->graph).ok()) << Verify(model->graph);
  reference::NamedNumbers state = RandomPersistents(model->graph, 3);
  const reference::NamedNumbers before = state;
  ASSERT_TRUE(
      reference::Run(model->graph, RandomInputs(model->graph, 5), state).ok());
  for (const char* name : {"dense_0.weight", "dense_2.weight"}) {
    const std::string average = absl::StrCat(name, "/ema");
    EXPECT_NE(state[name], before.at(name));
    for (size_t i = 0; i < state[name].size(); ++i) {
      EXPECT_NEAR(state[average][i],
                  0.75 * before.at(average)[i] + 0.25 * state[name][i], 1e-12);
    }
  }
  EXPECT_EQ(state.count("dense_0.bias/ema"), 0u) << "it is not trained";
  auto eval = BuildEvalGraph(*source, {}, training, 4);
  ASSERT_TRUE(eval.ok()) << eval.status();
  ASSERT_TRUE(Verify(eval->graph).ok()) << Verify(eval->graph);
  EXPECT_NE(eval->graph.FindValue("dense_0.weight/ema"), nullptr);
  EXPECT_EQ(eval->graph.FindValue("dense_0.weight"), nullptr);
  EXPECT_NE(eval->graph.FindValue("dense_0.bias"), nullptr);
}

TEST(TrainingGraphTest, FrozenWeightsHaveNoOptimizerState) {
  auto model = BuildTrainingGraph(
      ModelFromText(kPlainNet), {},
      TrainingFromText("cross_entropy {} adam {} batch_size: 4 "
                       "trainable: 'dense_2.*'"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(UpdatedNames(model->graph),
              ::testing::UnorderedElementsAre(
                  "dense_2.weight", "dense_2.bias", "dense_2.weight/adam.m",
                  "dense_2.weight/adam.v", "dense_2.bias/adam.m",
                  "dense_2.bias/adam.v"));
}

TEST(TrainingGraphTest, TheLossReadsTheNamedOutput) {
  const std::string rest = "cross_entropy {} adam {} batch_size: 4 ";
  EXPECT_TRUE(BuildTrainingGraph(ModelFromText(kPlainNet), {},
                                 TrainingFromText(rest + "output: 'output'"))
                  .ok());
  EXPECT_THAT(BuildTrainingGraph(ModelFromText(kPlainNet), {},
                                 TrainingFromText(rest + "output: 'logits'"))
                  .status()
                  .message(),
              HasSubstr("no output 'logits'; it has 'output'"));
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
      {"cross_entropy {} adam {} clip_gradient_value: -1 batch_size: 8",
       "clip_gradient_value -1"},
      {"cross_entropy {} adam {} ema { decay: 1 } batch_size: 8",
       "ema: decay 1"},
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
      ModelFromText("input_shape: [1, 1, 2, 2, 4] layers { dense { units: 3 } "
                    "}"),
      {}, Adam());
  EXPECT_THAT(model.status().message(), HasSubstr("[1, 1, 2, 2, 3]"));
}

TEST(TrainingGraphTest, AModelWithoutWeightsCannotBeTrained) {
  auto model = BuildTrainingGraph(
      ModelFromText("input_shape: [4] layers { relu {} }"), {}, Adam());
  EXPECT_THAT(model.status().message(), HasSubstr("nothing to train"));
}

}  // namespace
}  // namespace gpupool::engine
