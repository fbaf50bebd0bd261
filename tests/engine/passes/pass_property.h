// Checks that passes keep results. The reference interpreter runs a graph
// before and after all passes, without each single pass, and with each pass
// alone.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/graph/print.h"
#include "engine/passes/pipeline.h"
#include "tests/engine/testing/graph_testing.h"

namespace gpupool::engine::testing {

struct Result {
  reference::NamedNumbers outputs;
  reference::NamedNumbers state;
};

inline Result RunOnce(const Graph& graph, uint64_t seed) {
  Result result;
  result.state = RandomPersistents(graph, seed);
  auto outputs = reference::Run(graph, RandomInputs(graph, seed), result.state);
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  if (outputs.ok()) result.outputs = *outputs;
  return result;
}

inline void ExpectSame(const Result& a, const Result& b, double tolerance) {
  ASSERT_EQ(a.outputs.size(), b.outputs.size());
  for (const auto& [name, numbers] : b.outputs) {
    EXPECT_LT(Distance(a.outputs.at(name), numbers), tolerance) << name;
  }
  for (const auto& [name, numbers] : b.state) {
    EXPECT_LT(Distance(a.state.at(name), numbers), tolerance) << name;
  }
}

// Returns all passes, then for each pass: only it, and all others.
inline std::vector<PassOptions> PassVariants() {
  const auto names = PassNames();
  std::vector<PassOptions> variants(1);
  for (size_t i = 0; i < names.size(); ++i) {
    PassOptions only;
    for (absl::string_view name : names) {
      if (name != names[i]) only.off.push_back(std::string(name));
    }
    variants.push_back(only);
    PassOptions without;
    without.off.push_back(std::string(names[i]));
    variants.push_back(without);
  }
  for (PassOptions& variant : variants) variant.recompute.layers = {"*"};
  return variants;
}

inline void ExpectPassesKeepResults(const Graph& plain, uint64_t seed,
                                    double tolerance) {
  const Result expected = RunOnce(plain, seed);
  for (const PassOptions& options : PassVariants()) {
    Graph graph = plain;
    PassReport report;
    const absl::Status status = RunPasses(graph, options, &report);
    ASSERT_TRUE(status.ok()) << status << "\n" << Print(plain);
    ExpectSame(RunOnce(graph, seed), expected, tolerance);
    if (::testing::Test::HasFailure()) {
      FAIL() << report.ToString() << Print(plain) << "became\n" << Print(graph);
    }
  }
}

}  // namespace gpupool::engine::testing
