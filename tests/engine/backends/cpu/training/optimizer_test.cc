#include <gtest/gtest.h>

#include "tests/engine/backends/cpu/graph_runner.h"
#include "tests/engine/backends/cpu/training/optimizer_skip.h"

namespace gpupool::engine {
namespace {

class OptimizerSkip : public ::testing::TestWithParam<const char*> {};

TEST_P(OptimizerSkip, KeepsParametersAndStates) {
  ExpectSkips(GetParam(),
              [](const Graph& graph, const reference::NamedNumbers& inputs,
                 reference::NamedNumbers& state) {
                return RunOnCpu(graph, inputs, state, 2);
              });
}

INSTANTIATE_TEST_SUITE_P(All, OptimizerSkip, ::testing::ValuesIn(kOptimizers),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace gpupool::engine
