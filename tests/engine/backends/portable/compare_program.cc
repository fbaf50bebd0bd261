#include "tests/engine/backends/portable/compare_program.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "engine/graph/print.h"
#include "engine/passes/pipeline.h"
#include "tests/engine/backends/portable/node_runner.h"
#include "tests/engine/testing/graph_testing.h"
#include "tests/engine/testing/random_graph.h"

namespace gpupool::engine::testing {
namespace {

using reference::NamedNumbers;

// The tolerance covers float32 errors over dozens of nodes. Adam divides
// gradients by their own size, so noise in tiny gradients becomes visible.
constexpr double kTolerance = 2e-3;

// Compares all of `got`, which may have fewer values than `wanted`.
void ExpectSameProgram(const NamedNumbers& wanted, const NamedNumbers& got) {
  for (const auto& [name, numbers] : got) {
    EXPECT_LE(Distance(numbers, wanted.at(name)), kTolerance) << name;
  }
}

}  // namespace

void ExpectRandomProgramAgrees(uint64_t seed, bool training,
                               const BackendUnderTest& on) {
  const Graph plain = RandomGraph(seed, training);
  Graph graph = plain;
  const absl::Status passes = RunPasses(graph, {}, nullptr);
  ASSERT_TRUE(passes.ok()) << passes;
  SCOPED_TRACE(absl::StrCat("seed ", seed, "\n", Print(graph)));
  const NamedNumbers inputs = RandomInputs(plain, seed);
  NamedNumbers wanted_state = RandomPersistents(plain, seed);
  NamedNumbers got_state = wanted_state;
  const auto got = RunNodes({.backend = *on.backend, .allocator = on.allocator},
                            graph, inputs, got_state);
  if (got.status().code() == absl::StatusCode::kUnimplemented) {
    GTEST_SKIP() << got.status().message();
  }
  ASSERT_TRUE(got.ok()) << got.status();
  const auto wanted = reference::Run(plain, inputs, wanted_state);
  ASSERT_TRUE(wanted.ok()) << wanted.status();
  EXPECT_EQ(got->size(), wanted->size());
  ExpectSameProgram(*wanted, *got);
  ExpectSameProgram(wanted_state, got_state);
}

}  // namespace gpupool::engine::testing
