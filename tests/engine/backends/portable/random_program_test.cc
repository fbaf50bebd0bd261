// Graphs of all op families, after all passes, on the portable kernels against
// the reference back end without passes.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "engine/backends/portable/portable_backend.h"
#include "engine/graph/print.h"
#include "engine/passes/pipeline.h"
#include "tests/engine/backends/portable/node_runner.h"
#include "tests/engine/testing/graph_testing.h"
#include "tests/engine/testing/random_graph.h"

namespace gpupool::engine::testing {
namespace {

using reference::NamedNumbers;

// float32 through some dozens of nodes. Adam divides gradients by their own
// size, so tiny ones show their noise.
constexpr double kTolerance = 2e-3;

void ExpectSame(const NamedNumbers& got, const NamedNumbers& wanted,
                const Graph& graph) {
  for (const auto& [name, numbers] : wanted) {
    EXPECT_LE(Distance(got.at(name), numbers), kTolerance) << name << "\n"
                                                           << Print(graph);
  }
}

// Skips, with the reason, where an op has no portable kernel.
void ExpectPortableAgrees(const Graph& plain, uint64_t seed) {
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  Graph graph = plain;
  const absl::Status passes = RunPasses(graph, {}, nullptr);
  ASSERT_TRUE(passes.ok()) << passes;
  const NamedNumbers inputs = RandomInputs(plain, seed);
  NamedNumbers wanted_state = RandomPersistents(plain, seed);
  NamedNumbers got_state = wanted_state;
  portable::PortableBackend backend;
  const auto got = RunNodes(backend, graph, inputs, got_state);
  if (got.status().code() == absl::StatusCode::kUnimplemented) {
    GTEST_SKIP() << got.status().message();
  }
  ASSERT_TRUE(got.ok()) << got.status();
  const auto wanted = reference::Run(plain, inputs, wanted_state);
  ASSERT_TRUE(wanted.ok()) << wanted.status();
  ExpectSame(*got, *wanted, graph);
  for (const auto& [name, numbers] : got_state) {
    EXPECT_LE(Distance(numbers, wanted_state.at(name)), kTolerance) << name;
  }
}

class PortableProgram : public ::testing::TestWithParam<int> {};

TEST_P(PortableProgram, InferenceAgrees) {
  const auto seed = static_cast<uint64_t>(GetParam());
  ExpectPortableAgrees(RandomGraph(seed, false), seed);
}

TEST_P(PortableProgram, TrainingAgrees) {
  const auto seed = static_cast<uint64_t>(GetParam());
  ExpectPortableAgrees(RandomGraph(seed, true), seed);
}

INSTANTIATE_TEST_SUITE_P(Seeds, PortableProgram, ::testing::Range(0, 20));

}  // namespace
}  // namespace gpupool::engine::testing
