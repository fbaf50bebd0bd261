#include "engine/import/optimizer_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/graph/builder.h"
#include "tests/engine/testing/graph_testing.h"

namespace gpupool::engine {
namespace {

using reference::NamedNumbers;
using reference::Numbers;
using ::testing::HasSubstr;
using testing::TrainingFromText;

// Returns two weights after four steps. The gradient of step t at p is p - t /
// 4.
Numbers AfterFourSteps(const std::string& optimizer) {
  const v1::TrainingSpec training = TrainingFromText(optimizer);
  auto tail = ConvertOptimizer(training);
  EXPECT_TRUE(tail.ok()) << tail.status();
  if (!tail.ok()) return {};
  Graph graph;
  GraphBuilder builder(&graph);
  const TensorType type = {DType::kFloat32, {2}};
  const ValueId weight = *builder.Persistent("w", type, MemoryClass::kWeight);
  const ValueId gradient = *builder.Input("gradient", type);
  auto states = AddStepTail(graph, {weight}, {gradient}, *tail);
  EXPECT_TRUE(states.ok()) << states.status();
  NamedNumbers values = {{"w", {1.0, -0.5}}};
  for (const OptimizerState& state : *states) {
    values[state.name].assign(2, InitialOptimizerState(training));
  }
  for (int step = 1; step <= 4; ++step) {
    NamedNumbers inputs = {{"learning_rate", {0.1}},
                           {"step", {static_cast<double>(step)}}};
    for (double p : values["w"]) inputs["gradient"].push_back(p - step / 4.0);
    EXPECT_TRUE(reference::Run(graph, inputs, values).ok());
  }
  return values["w"];
}

// Expected values, as tests/conformance/pytorch/optimizers.py prints them.
TEST(OptimizerOptionsTest, WeightsAreThoseOfPytorchAfterFourSteps) {
  const std::pair<const char*, Numbers> cases[] = {
      {"rmsprop {}", {1.0150798747439744, 1.0451559236784442}},
      {"rmsprop { alpha: 0.9 epsilon: 1e-6 weight_decay: 0.01 momentum: 0.5 "
       "centered: true }",
       {0.631035031414316, 0.9435297796933562}},
      {"adagrad {}", {0.859185413211393, -0.1936254526654673}},
      {"adagrad { lr_decay: 0.1 weight_decay: 0.01 initial_accumulator: 0.25 }",
       {0.8760820159864399, -0.2508803415632696}},
      {"adamw {}", {0.6838211323713708, -0.09777829966762273}},
      {"sgd { learning_rate: 0.1 momentum: 0.9 nesterov: true "
       "weight_decay: 0.01 }",
       {0.6349313141945196, 0.5035343769641616}},
      {"lion { weight_decay: 0.01 }", {0.796605596101, -0.09860259810050001}},
  };
  for (const auto& [optimizer, weights] : cases) {
    EXPECT_LT(testing::Distance(AfterFourSteps(optimizer), weights), 1e-9)
        << optimizer;
  }
}

TEST(OptimizerOptionsTest, FieldsOutOfRangeAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "choose sgd, adam, adamw, rmsprop, adagrad or lion"},
      {"rmsprop { alpha: 1 }", "rmsprop: alpha 1"},
      {"rmsprop { epsilon: 0 }", "rmsprop: epsilon 0"},
      {"rmsprop { learning_rate: 0 }", "rmsprop: learning_rate 0"},
      {"rmsprop { momentum: 1 }", "rmsprop: momentum 1"},
      {"rmsprop { weight_decay: -1 }", "rmsprop: weight_decay -1"},
      {"adagrad { lr_decay: -1 }", "adagrad: lr_decay -1"},
      {"adagrad { epsilon: nan }", "adagrad: epsilon nan"},
      {"adagrad { initial_accumulator: -1 }", "initial_accumulator -1"},
      {"adagrad { weight_decay: inf }", "adagrad: weight_decay inf"},
      {"lion { beta1: 1 }", "lion: beta1 1"},
      {"lion { beta2: -0.5 }", "lion: beta2 -0.5"},
      {"lion { weight_decay: -1 }", "lion: weight_decay -1"},
      {"adam {} clip_gradient_norm: nan", "clip_gradient_norm nan"},
  };
  for (const auto& [text, message] : cases) {
    auto tail = ConvertOptimizer(TrainingFromText(text));
    EXPECT_EQ(tail.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(tail.status().message(), HasSubstr(message)) << text;
  }
}

}  // namespace
}  // namespace gpupool::engine
