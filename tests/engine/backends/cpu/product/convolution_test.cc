// Convolutions that are large enough for oneDNN's Winograd kernels, with an
// activation that our Winograd kernels do not support, and volumes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/engine/backends/cpu/graph_runner.h"
#include "tests/engine/backends/cpu/op_cases.h"

namespace gpupool::engine {
namespace {

void ExpectNearConvolution(const reference::Numbers& got,
                           const reference::Numbers& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  double largest = 0, difference = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::abs(wanted[i]));
    difference = std::max(difference, std::abs(got[i] - wanted[i]));
  }
  EXPECT_LE(difference, 1e-5 * largest);
}

void ExpectAsTheReference(OpCase& at) {
  reference::NamedNumbers state = at.persistents;
  const auto wanted = reference::Run(at.graph(), at.inputs, state);
  ASSERT_TRUE(wanted.ok()) << wanted.status();
  const auto got = RunOnCpu(at.graph(), at.inputs, state, 2);
  ASSERT_TRUE(got.ok()) << got.status();
  for (const auto& [name, numbers] : *wanted) {
    SCOPED_TRACE(name);
    ExpectNearConvolution(got->at(name), numbers);
  }
}

const Shape kVolume{2, 20, 5, 12, 12};
const Shape kWindow{24, 20, 3, 3, 3};
const Shape kVolumeResult{2, 24, 5, 6, 6};
const Conv2dAttributes kVolumeConv{.stride = {2, 2, 1},
                                   .padding = Padding(Extent{1, 1, 1}),
                                   .dilation = {1, 1, 1}};

TEST(VolumeConvTest, AddsBiasAndResidualAndActs) {
  for (const bool residual : {false, true}) {
    OpCase at(8);
    Conv2dAttributes conv = kVolumeConv;
    conv.epilogue = {true, residual, Activation::kRelu};
    std::vector<ValueId> inputs = {at.Floats(kVolume), at.Weights(kWindow),
                                   at.Weights({kWindow[0]})};
    if (residual) inputs.push_back(at.Floats(kVolumeResult));
    at.Emit(Op::kConv2d, inputs, conv);
    ExpectAsTheReference(at);
  }
}

// oneDNN 2.6 ends the process for such groups in channels-last volumes.
TEST(VolumeConvTest, GroupsMayHaveAnyNumberOfChannels) {
  OpCase at(11);
  at.Emit(Op::kConv2d,
          {at.Floats({2, 72, 2, 2, 3}), at.Weights({68, 18, 1, 1, 2})},
          Conv2dAttributes{.stride = {1, 2, 2},
                           .padding = Padding(Extent{0, 0, 0}, Extent{1, 0, 0}),
                           .dilation = {1, 1, 1},
                           .groups = 4});
  ExpectAsTheReference(at);
}

// oneDNN 2.6 gives other sums for such windows in channels-last volumes.
TEST(VolumeConvTest, WindowsOfOneCellMayBePadded) {
  OpCase at(12);
  Conv2dAttributes conv{.stride = {2, 2, 2},
                        .padding = Padding(Extent{2, 1, 1}, Extent{0, 0, 1}),
                        .dilation = {1, 1, 1}};
  conv.epilogue = {true, true, Activation::kNone};
  at.Emit(Op::kConv2d,
          {at.Floats({1, 10, 2, 2, 5}), at.Weights({4, 10, 1, 1, 1}),
           at.Weights({4}), at.Floats({1, 4, 2, 2, 3})},
          conv);
  ExpectAsTheReference(at);
}

TEST(VolumeConvTest, HasTheGradientsOfTheReference) {
  OpCase by_volume(9);
  by_volume.Emit(Op::kConv2dInputGrad,
                 {by_volume.Floats(kVolumeResult), by_volume.Floats(kWindow)},
                 Conv2dGradAttributes{kVolumeConv, kVolume, false});
  ExpectAsTheReference(by_volume);
  OpCase by_weight(10);
  by_weight.Emit(Op::kConv2dWeightGrad,
                 {by_weight.Floats(kVolumeResult), by_weight.Floats(kVolume)},
                 Conv2dGradAttributes{kVolumeConv, kWindow, true});
  ExpectAsTheReference(by_weight);
}

TEST(Conv2dTest, WideChannelsAndManyCellsAgreeWithTheReference) {
  for (const bool residual : {false, true}) {
    OpCase at(7);
    Conv2dAttributes conv{.padding = {1, 1}};
    conv.epilogue = {true, residual, Activation::kGelu};
    std::vector<ValueId> inputs = {at.Floats({1, 64, 28, 28}),
                                   at.Weights({80, 64, 3, 3}, -0.1, 0.1),
                                   at.Weights({80})};
    if (residual) inputs.push_back(at.Floats({1, 80, 28, 28}));
    at.Emit(Op::kConv2d, inputs, conv);
    at.UseChannelsLast();
    SCOPED_TRACE(residual);
    ExpectAsTheReference(at);
  }
}

}  // namespace
}  // namespace gpupool::engine
