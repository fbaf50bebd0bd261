// Compares whole programs of models, after all passes, on the CPU back end with
// the reference back end without passes.
#include <gtest/gtest.h>

#include "engine/model/model_programs.h"
#include "engine/passes/pipeline.h"
#include "gpupool/v1/job.pb.h"
#include "tests/engine/backends/cpu/graph_runner.h"
#include "tests/engine/testing/graph_testing.h"

namespace gpupool::engine {
namespace {

using reference::NamedNumbers;

constexpr const char* kTraining = R"pb(
  cross_entropy { label_smoothing: 0.1 }
  adam { learning_rate: 0.01 }
  clip_gradient_norm: 1
  batch_size: 9
)pb";

v1::ModelSpec ResidualModel() {
  return testing::ModelFromText(R"pb(
    input_shape: [ 3, 6, 6 ]
    layers { conv2d { filters: 8 kernel: 3 padding: 1 bias: false } }
    layers { batch_norm {} }
    layers {
      name: "first"
      relu {}
    }
    layers { conv2d { filters: 8 kernel: 3 padding: 1 } }
    layers { add { from: "first" } }
    layers { gelu {} }
    layers { avg_pool { kernel: 2 } }
    layers { global_avg_pool {} }
    layers { layer_norm {} }
    layers { dense { units: 5 } }
    layers { tanh {} }
    layers { dense { units: 3 } }
  )pb");
}

void ExpectCpuAgrees(const Graph& graph, double tolerance) {
  Graph optimised = graph;
  PassReport report;
  const absl::Status passes = RunPasses(optimised, {}, &report);
  ASSERT_TRUE(passes.ok()) << passes;
  const NamedNumbers inputs = testing::RandomInputs(graph, 3);
  NamedNumbers wanted_state = testing::RandomPersistents(graph, 5);
  NamedNumbers got_state = wanted_state;
  const auto wanted = reference::Run(graph, inputs, wanted_state);
  ASSERT_TRUE(wanted.ok()) << wanted.status();
  const auto got = RunOnCpu(optimised, inputs, got_state, 2);
  ASSERT_TRUE(got.ok()) << got.status();
  for (const auto& [name, numbers] : *wanted) {
    EXPECT_LE(testing::Distance(got->at(name), numbers), tolerance) << name;
  }
  for (const auto& [name, numbers] : got_state) {
    EXPECT_LE(testing::Distance(numbers, wanted_state.at(name)), tolerance)
        << name;
  }
}

class WholeProgramTest : public ::testing::TestWithParam<bool> {
 protected:
  v1::ModelSpec model_ = GetParam() ? ResidualModel() : testing::DigitsModel();
  v1::Scaling scaling_;
  v1::TrainingSpec training_ = testing::TrainingFromText(kTraining);
};

// Adam's first steps divide by the root of v, so noise in tiny gradients
// becomes visible. The weights themselves are of order 1.
TEST_P(WholeProgramTest, TrainingStepAgrees) {
  auto graph = BuildTrainingGraph(model_, scaling_, training_);
  ASSERT_TRUE(graph.ok()) << graph.status();
  ExpectCpuAgrees(graph->graph, 1e-4);
}

TEST_P(WholeProgramTest, EvaluationAgrees) {
  auto graph = BuildEvalGraph(model_, scaling_, training_, 7);
  ASSERT_TRUE(graph.ok()) << graph.status();
  ExpectCpuAgrees(graph->graph, 1e-5);
}

TEST_P(WholeProgramTest, InferenceAgreesForEveryBatch) {
  for (const int64_t batch : {1, 2, 5, 32}) {
    auto graph = BuildInferenceGraph(model_, false, batch);
    ASSERT_TRUE(graph.ok()) << graph.status();
    ExpectCpuAgrees(graph->graph, 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, WholeProgramTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Residual" : "Digits";
                         });

}  // namespace
}  // namespace gpupool::engine
