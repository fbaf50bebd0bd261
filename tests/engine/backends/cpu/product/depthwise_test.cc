// Compares depthwise convolutions with the reference in double precision.
#include "engine/backends/cpu/product/depthwise.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/engine/backends/cpu/graph_runner.h"
#include "tests/engine/backends/cpu/op_cases.h"

namespace gpupool::engine {
namespace {

struct DepthwiseSizes {
  int64_t images, channels, height, width;
  int64_t kernel, stride;
  Padding padding;
};

void PrintTo(const DepthwiseSizes& s, std::ostream* out) {
  *out << s.images << "x" << s.channels << " of " << s.height << "x" << s.width
       << ", " << s.kernel << "x" << s.kernel << " with stride " << s.stride;
}

Conv2dAttributes ConvOf(const DepthwiseSizes& s) {
  return {.stride = {s.stride, s.stride},
          .padding = s.padding,
          .groups = s.channels};
}

Shape DepthwiseImage(const DepthwiseSizes& s) {
  return {s.images, s.channels, s.height, s.width};
}
Shape DepthwiseWeights(const DepthwiseSizes& s) {
  return {s.channels, 1, s.kernel, s.kernel};
}
Shape DepthwiseResult(const DepthwiseSizes& s) {
  const auto cells = [&](int64_t size, int64_t before, int64_t after) {
    return (size + before + after - s.kernel) / s.stride + 1;
  };
  return {s.images, s.channels,
          cells(s.height, s.padding.begin.h, s.padding.end.h),
          cells(s.width, s.padding.begin.w, s.padding.end.w)};
}

bool DepthwiseIsChosen(const Graph& graph) {
  const CpuContext context(1);
  const Node& node = graph.nodes()[0];
  const auto kernel = MakeDepthwiseConv2d(
      {graph, node, std::vector<bool>(node.inputs.size())}, context);
  return kernel.ok() && *kernel != nullptr;
}

reference::Numbers DepthwiseNumbers(OpCase& at, int threads) {
  reference::NamedNumbers state = at.persistents;
  const auto got = RunOnCpu(at.graph(), at.inputs, state, threads);
  EXPECT_TRUE(got.ok()) << got.status();
  return got.ok() ? got->at("output0") : reference::Numbers();
}

// Expects the right numbers with one thread, and the same bits with more.
void ExpectDepthwise(OpCase& at) {
  at.UseChannelsLast();
  ASSERT_TRUE(DepthwiseIsChosen(at.graph()));
  reference::NamedNumbers state = at.persistents;
  const auto wanted = reference::Run(at.graph(), at.inputs, state);
  ASSERT_TRUE(wanted.ok()) << wanted.status();
  const reference::Numbers one = DepthwiseNumbers(at, 1);
  const reference::Numbers& right = wanted->at("output0");
  ASSERT_EQ(one.size(), right.size());
  for (size_t i = 0; i < one.size(); ++i) {
    ASSERT_NEAR(one[i], right[i], 2e-5 * (1 + std::abs(right[i]))) << i;
  }
  EXPECT_EQ(DepthwiseNumbers(at, 2), one);
  EXPECT_EQ(DepthwiseNumbers(at, 3), one);
}

class Depthwise : public ::testing::TestWithParam<DepthwiseSizes> {
 protected:
  // The loops need vectors of at least 8 numbers.
  void SetUp() override {
    OpCase at(1);
    at.Emit(Op::kConv2d, {at.Floats({1, 8, 7, 7}), at.Weights({8, 1, 3, 3})},
            Conv2dAttributes{.groups = 8});
    at.UseChannelsLast();
    if (!DepthwiseIsChosen(at.graph())) GTEST_SKIP() << "no wide vectors here";
  }
};

TEST_P(Depthwise, ConvolvesAsTheReference) {
  const DepthwiseSizes& s = GetParam();
  OpCase at(2);
  at.Emit(Op::kConv2d,
          {at.Floats(DepthwiseImage(s)), at.Weights(DepthwiseWeights(s))},
          ConvOf(s));
  ExpectDepthwise(at);
}

TEST_P(Depthwise, TakesTheWeightsOfTheMomentWhereTheyAreNotStable) {
  const DepthwiseSizes& s = GetParam();
  OpCase at(3);
  at.Emit(Op::kConv2d,
          {at.Floats(DepthwiseImage(s)), at.Floats(DepthwiseWeights(s))},
          ConvOf(s));
  ExpectDepthwise(at);
}

TEST_P(Depthwise, AppliesTheEpilogue) {
  const DepthwiseSizes& s = GetParam();
  const auto unary = [](UnaryFunction function) {
    return Epilogue{true, false, Activation::kUnary, {function, 0.25, 6}};
  };
  for (const Epilogue& epilogue :
       {Epilogue{true, false, Activation::kRelu, {}},
        Epilogue{true, true, Activation::kRelu, {}},
        Epilogue{false, true, Activation::kSigmoid, {}},
        unary(UnaryFunction::kSilu), unary(UnaryFunction::kHardSwish),
        unary(UnaryFunction::kClip)}) {
    OpCase at(4);
    Conv2dAttributes conv = ConvOf(s);
    conv.epilogue = epilogue;
    std::vector<ValueId> inputs = {at.Floats(DepthwiseImage(s)),
                                   at.Weights(DepthwiseWeights(s))};
    if (epilogue.bias) inputs.push_back(at.Weights({s.channels}));
    if (epilogue.residual) inputs.push_back(at.Floats(DepthwiseResult(s)));
    at.Emit(Op::kConv2d, inputs, conv);
    ExpectDepthwise(at);
  }
}

// Runs of 7 or 4 results, whole or not, and channels that fill vectors or do
// not; windows that reach beyond each edge.
INSTANTIATE_TEST_SUITE_P(
    DepthwiseSizes, Depthwise,
    ::testing::Values(DepthwiseSizes{1, 16, 7, 7, 3, 1, {1, 1}},
                      DepthwiseSizes{2, 80, 14, 14, 5, 1, {2, 2}},
                      DepthwiseSizes{3, 24, 9, 11, 3, 2, {1, 1}},
                      DepthwiseSizes{1, 130, 6, 5, 7, 1, {3, 3}},
                      DepthwiseSizes{1, 3, 28, 28, 5, 2, {2, 2}},
                      DepthwiseSizes{1, 40, 17, 23, 7, 2, {3, 3}},
                      DepthwiseSizes{2, 21, 8, 30, 5, 1, {0, 0}},
                      DepthwiseSizes{
                          1, 48, 10, 9, 3, 2, {Extent{0, 1}, Extent{1, 0}}},
                      DepthwiseSizes{1, 32, 1, 2, 5, 1, {2, 2}}));

TEST(DepthwiseTest, LeavesOtherConvolutionsToOthers) {
  const auto chosen = [](const Shape& x, const Shape& w,
                         const Conv2dAttributes& conv) {
    OpCase at(5);
    at.Emit(Op::kConv2d, {at.Floats(x), at.Weights(w)}, conv);
    at.UseChannelsLast();
    return DepthwiseIsChosen(at.graph());
  };
  const Shape x{1, 8, 12, 12};
  EXPECT_FALSE(chosen(x, {8, 2, 3, 3}, {.groups = 4}));
  EXPECT_FALSE(chosen(x, {16, 1, 3, 3}, {.groups = 8}));
  EXPECT_FALSE(chosen(x, {8, 1, 4, 4}, {.groups = 8}));
  EXPECT_FALSE(chosen(x, {8, 1, 3, 5}, {.groups = 8}));
  EXPECT_FALSE(chosen(x, {8, 1, 3, 3}, {.dilation = {2, 2}, .groups = 8}));
  EXPECT_FALSE(chosen(x, {8, 1, 3, 3}, {.stride = {3, 3}, .groups = 8}));
  EXPECT_FALSE(chosen(x, {8, 1, 3, 3}, {.stride = {1, 2}, .groups = 8}));
}

}  // namespace
}  // namespace gpupool::engine
