// Compares graphs of all op families, after all passes, on the CPU back end
// with the reference back end without passes.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "engine/graph/print.h"
#include "engine/passes/pipeline.h"
#include "tests/engine/backends/cpu/graph_runner.h"
#include "tests/engine/testing/graph_testing.h"
#include "tests/engine/testing/random_graph.h"

namespace gpupool::engine {
namespace {

using reference::NamedNumbers;

// The tolerance covers float32 errors over dozens of nodes. Adam divides
// gradients by their own size, so noise in tiny gradients becomes visible.
constexpr double kTolerance = 2e-3;

class RandomProgramTest : public ::testing::TestWithParam<int> {
 protected:
  static void ExpectCpuAgrees(const Graph& plain, uint64_t seed) {
    Graph graph = plain;
    const absl::Status passes = RunPasses(graph, {}, nullptr);
    ASSERT_TRUE(passes.ok()) << passes;
    const NamedNumbers inputs = testing::RandomInputs(plain, seed);
    NamedNumbers wanted_state = testing::RandomPersistents(plain, seed);
    NamedNumbers got_state = wanted_state;
    const auto wanted = reference::Run(plain, inputs, wanted_state);
    ASSERT_TRUE(wanted.ok()) << wanted.status();
    const auto got = RunOnCpu(graph, inputs, got_state, 2);
    ASSERT_TRUE(got.ok()) << got.status();
    for (const auto& [name, numbers] : *wanted) {
      EXPECT_LE(testing::Distance(got->at(name), numbers), kTolerance)
          << name << "\n"
          << Print(graph);
    }
    for (const auto& [name, numbers] : got_state) {
      EXPECT_LE(testing::Distance(numbers, wanted_state.at(name)), kTolerance)
          << name << "\n"
          << Print(graph);
    }
  }
};

TEST_P(RandomProgramTest, InferenceAgrees) {
  const auto seed = static_cast<uint64_t>(GetParam());
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  ExpectCpuAgrees(testing::RandomGraph(seed, false), seed);
}

TEST_P(RandomProgramTest, TrainingAgrees) {
  const auto seed = static_cast<uint64_t>(GetParam());
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  ExpectCpuAgrees(testing::RandomGraph(seed, true), seed);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomProgramTest, ::testing::Range(0, 40));

}  // namespace
}  // namespace gpupool::engine
