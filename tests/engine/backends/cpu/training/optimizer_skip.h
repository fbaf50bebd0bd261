// Checks that a NaN clip coefficient changes no bit of parameters and states,
// whatever the gradient is. For every back end.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>

#include "absl/status/statusor.h"
#include "tests/engine/backends/cpu/op_cases.h"

namespace gpupool::engine {

inline constexpr std::array kOptimizers = {"SgdStep",     "AdamStep",
                                           "RmspropStep", "AdagradStep",
                                           "LionStep",    "AdamaxStep"};

inline OpCaseMaker FindOpCase(const std::string& name) {
  for (OpCaseMaker& maker : AllOpCases()) {
    if (maker.name == name) return std::move(maker);
  }
  ADD_FAILURE() << "there is no case " << name;
  return {};
}

// Checks one case. `run` computes a graph from inputs and persistent values,
// which it changes.
template <typename Run>
void ExpectSkips(const char* optimizer, const Run& run) {
  const OpCaseMaker maker = FindOpCase(optimizer);
  int skipped = 0;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    OpCase at(seed);
    maker.build(at);
    if (!UndefineClip(at)) continue;
    // Input 1 of the node is the gradient.
    const ValueId gradient = at.graph().nodes()[0].inputs[1];
    at.inputs.at(at.graph().value(gradient).name)[0] = HUGE_VAL;
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    reference::NamedNumbers state = at.persistents;
    const auto got = run(at.graph(), at.inputs, state);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(state, at.persistents);
    ++skipped;
  }
  EXPECT_GT(skipped, 5);
}

}  // namespace gpupool::engine
