// Convolutions that are large enough for oneDNN's Winograd kernels, with an
// activation that our Winograd kernels do not support.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/engine/backends/cpu/graph_runner.h"
#include "tests/engine/backends/cpu/op_cases.h"

namespace gpupool::engine {
namespace {

TEST(Conv2dTest, WideChannelsAndManyCellsAgreeWithTheReference) {
  for (const bool residual : {false, true}) {
    OpCase at(7);
    Conv2dAttributes conv{.padding = {1, 1}};
    conv.epilogue = {true, residual, Activation::kSigmoid};
    std::vector<ValueId> inputs = {at.Floats({1, 64, 28, 28}),
                                   at.Weights({80, 64, 3, 3}, -0.1, 0.1),
                                   at.Weights({80})};
    if (residual) inputs.push_back(at.Floats({1, 80, 28, 28}));
    at.Emit(Op::kConv2d, inputs, conv);
    at.UseChannelsLast();
    reference::NamedNumbers state = at.persistents;
    const auto wanted = reference::Run(at.graph(), at.inputs, state);
    ASSERT_TRUE(wanted.ok()) << wanted.status();
    const auto got = RunOnCpu(at.graph(), at.inputs, state, 2);
    ASSERT_TRUE(got.ok()) << got.status();
    const reference::Numbers& numbers = got->at("output0");
    double largest = 0, difference = 0;
    for (size_t i = 0; i < numbers.size(); ++i) {
      const double number = wanted->at("output0")[i];
      largest = std::max(largest, std::abs(number));
      difference = std::max(difference, std::abs(numbers[i] - number));
    }
    EXPECT_LE(difference, 1e-5 * largest) << residual;
  }
}

}  // namespace
}  // namespace gpupool::engine
