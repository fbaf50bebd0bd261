#include <gtest/gtest.h>

#include "engine/backends/portable/portable_backend.h"
#include "tests/engine/backends/cpu/training/optimizer_skip.h"
#include "tests/engine/backends/portable/node_runner.h"

namespace gpupool::engine::testing {
namespace {

class OptimizerSkip : public ::testing::TestWithParam<const char*> {};

TEST_P(OptimizerSkip, KeepsParametersAndStates) {
  portable::PortableBackend backend;
  ExpectSkips(GetParam(), [&backend](const Graph& graph,
                                     const reference::NamedNumbers& inputs,
                                     reference::NamedNumbers& state) {
    return RunNodes(backend, graph, inputs, state);
  });
}

INSTANTIATE_TEST_SUITE_P(All, OptimizerSkip, ::testing::ValuesIn(kOptimizers),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace gpupool::engine::testing
