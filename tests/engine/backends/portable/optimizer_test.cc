// A clip coefficient that is not a number leaves parameters and states as they
// are, to the bit, whatever the gradient is.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>

#include "engine/backends/portable/portable_backend.h"
#include "tests/engine/backends/cpu/op_cases.h"
#include "tests/engine/backends/portable/node_runner.h"

namespace gpupool::engine::testing {
namespace {

constexpr std::array kOptimizers = {"SgdStep", "AdamStep", "RmspropStep",
                                    "AdagradStep", "LionStep"};

class OptimizerSkip : public ::testing::TestWithParam<const char*> {
 protected:
  static OpCaseMaker Maker() {
    for (auto* list : {&CoreOpCases, &TrainingOpCases}) {
      for (OpCaseMaker& maker : (*list)()) {
        if (maker.name == GetParam()) return maker;
      }
    }
    return {};
  }
};

TEST_P(OptimizerSkip, KeepsParametersAndStates) {
  int skipped = 0;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    OpCase at(seed);
    Maker().build(at);
    if (!UndefineClip(at)) continue;
    // The gradient is input 1 of the node.
    const ValueId gradient = at.graph().nodes()[0].inputs[1];
    at.inputs.at(at.graph().value(gradient).name)[0] = HUGE_VAL;
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    reference::NamedNumbers state = at.persistents;
    portable::PortableBackend backend;
    const auto got = RunNodes(backend, at.graph(), at.inputs, state);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(state, at.persistents);
    ++skipped;
  }
  EXPECT_GT(skipped, 5);
}

INSTANTIATE_TEST_SUITE_P(All, OptimizerSkip, ::testing::ValuesIn(kOptimizers),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace gpupool::engine::testing
