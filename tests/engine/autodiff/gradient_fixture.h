// Compares gradients with finite differences on the reference back end, for the
// tests of the gradient rules.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/autodiff/gradient.h"
#include "engine/graph/builder.h"
#include "engine/graph/print.h"
#include "engine/graph/verify.h"
#include "tests/engine/testing/graph_testing.h"

namespace gpupool::engine {

inline constexpr double kStep = 1e-5;
inline constexpr double kTolerance = 1e-7;
// Varied numbers per weight, evenly spread.
inline constexpr size_t kProbes = 40;

inline double Loss(const Graph& graph, const reference::NamedNumbers& inputs,
                   const reference::NamedNumbers& state) {
  reference::NamedNumbers copy = state;
  auto outputs = reference::Run(graph, inputs, copy);
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return outputs.ok() ? (*outputs)["loss"][0] : NAN;
}

// Compares the gradient of every weight with central differences of the loss.
// The loss must be the output "loss".
inline void ExpectGradientsMatchDifferences(Graph graph, uint64_t seed) {
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::vector<ValueId> weights;
  for (const Value& value : graph.values()) {
    if (value.kind == ValueKind::kPersistent &&
        value.memory_class == MemoryClass::kWeight) {
      weights.push_back(value.id);
    }
  }
  auto gradients = AddGradients(graph, *graph.FindOutput("loss"), weights);
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  for (size_t i = 0; i < weights.size(); ++i) {
    const Value& weight = graph.value(weights[i]);
    EXPECT_EQ(weight.type(), graph.value((*gradients)[i]).type());
    graph.AddOutput(weight.name, (*gradients)[i]);
  }
  ASSERT_TRUE(Verify(graph).ok()) << Verify(graph) << Print(graph);
  const reference::NamedNumbers inputs = testing::RandomInputs(graph, seed);
  reference::NamedNumbers state = testing::RandomPersistents(graph, seed);
  reference::NamedNumbers scratch = state;
  auto outputs = reference::Run(graph, inputs, scratch);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  for (ValueId id : weights) {
    const std::string& name = graph.value(id).name;
    reference::Numbers& numbers = state[name];
    const size_t stride = numbers.size() / kProbes + 1;
    reference::Numbers differences, computed;
    for (size_t i = 0; i < numbers.size(); i += stride) {
      double& x = numbers[i];
      const double at = x;
      x = at + kStep;
      const double above = Loss(graph, inputs, state);
      x = at - kStep;
      const double below = Loss(graph, inputs, state);
      x = at;
      differences.push_back((above - below) / (2 * kStep));
      computed.push_back(outputs->at(name)[i]);
    }
    EXPECT_LT(testing::Distance(computed, differences), kTolerance)
        << name << "\n"
        << Print(graph);
  }
}

// A graph under construction. All operands are weights, so that every input's
// gradient is tested.
class GradientTest : public ::testing::Test {
 protected:
  ValueId Weight(const std::string& name, const Shape& shape) {
    return *builder_.Persistent(name, {DType::kFloat32, shape},
                                MemoryClass::kWeight);
  }

  ValueId Emit(Op op, const ValueIds& inputs, Attributes attributes = {}) {
    auto result = builder_.EmitOne(op, inputs, std::move(attributes));
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *result : ValueId{};
  }

  // Begins a new graph.
  void Reset() {
    graph_ = Graph();
    builder_ = GraphBuilder(&graph_);
  }

  // Ends the graph with a loss over `y` and checks it with several seeds.
  void Check(ValueId y) {
    ASSERT_TRUE(y.valid());
    const ValueId target = *builder_.Input("target", builder_.value(y).type());
    graph_.AddOutput(
        "loss", Emit(Op::kMeanSquaredError, {y, target}, LossAttributes{}));
    for (uint64_t seed : {1, 2}) ExpectGradientsMatchDifferences(graph_, seed);
  }

  Graph graph_;
  GraphBuilder builder_{&graph_};
};

}  // namespace gpupool::engine
