// Compares convolutions with 3x3 windows, and their gradients by images, with
// the reference in double precision. The error of a result is about twice that
// of a float32 sum of as many products: with 2304 normal products it is 1.5e-6
// of the results' root mean square, and 0.9e-6 for plain sums.
#include "engine/backends/cpu/product/winograd.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/engine/backends/cpu/graph_runner.h"
#include "tests/engine/backends/cpu/op_cases.h"

namespace gpupool::engine {
namespace {

constexpr double kTolerance = 5e-6;  // relative to the largest result

struct Sizes {
  int64_t images, channels, filters, height, width;
  Padding padding;
};

void PrintTo(const Sizes& s, std::ostream* out) {
  *out << s.images << "x" << s.channels << "->" << s.filters << " of "
       << s.height << "x" << s.width << " begin " << s.padding.begin.h << ","
       << s.padding.begin.w << " end " << s.padding.end.h << ","
       << s.padding.end.w;
}

int64_t ResultHeight(const Sizes& s) {
  return s.height + s.padding.begin.h + s.padding.end.h - 2;
}
int64_t ResultWidth(const Sizes& s) {
  return s.width + s.padding.begin.w + s.padding.end.w - 2;
}
Shape ImageShape(const Sizes& s) {
  return {s.images, s.channels, s.height, s.width};
}
Shape WeightShape(const Sizes& s) { return {s.filters, s.channels, 3, 3}; }
Shape ResultShape(const Sizes& s) {
  return {s.images, s.filters, ResultHeight(s), ResultWidth(s)};
}

reference::Numbers ResultsOf(OpCase& at, int threads) {
  reference::NamedNumbers state = at.persistents;
  const auto got = RunOnCpu(at.graph(), at.inputs, state, threads);
  EXPECT_TRUE(got.ok()) << got.status();
  return got.ok() ? got->at("output0") : reference::Numbers();
}

void ExpectNear(const reference::Numbers& got,
                const reference::Numbers& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  double largest = 0, difference = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::abs(wanted[i]));
    if (!(std::abs(got[i] - wanted[i]) <= difference)) {
      difference = std::abs(got[i] - wanted[i]);
    }
  }
  EXPECT_LE(difference, kTolerance * largest);
}

// Returns whether Winograd's algorithm is chosen for the graph's node.
bool IsChosen(const Graph& graph) {
  const Node& node = graph.nodes()[0];
  const CpuContext context(1);
  const CompileRequest request{graph, node,
                               std::vector<bool>(node.inputs.size())};
  const auto kernel = node.op == Op::kConv2d
                          ? MakeWinogradConv2d(request, context)
                          : MakeWinogradInputGrad(request, context);
  return kernel.ok() && *kernel != nullptr;
}

// Expects the right numbers with one thread, and the same bits with more.
void ExpectRight(OpCase& at) {
  at.UseChannelsLast();
  ASSERT_TRUE(IsChosen(at.graph()));
  reference::NamedNumbers state = at.persistents;
  const auto wanted = reference::Run(at.graph(), at.inputs, state);
  ASSERT_TRUE(wanted.ok()) << wanted.status();
  const reference::Numbers one = ResultsOf(at, 1);
  ExpectNear(one, wanted->at("output0"));
  EXPECT_EQ(ResultsOf(at, 2), one);
  EXPECT_EQ(ResultsOf(at, 3), one);
}

class Winograd : public ::testing::TestWithParam<Sizes> {};

TEST_P(Winograd, ConvolvesAsTheReference) {
  const Sizes& s = GetParam();
  OpCase at(1);
  at.Emit(Op::kConv2d, {at.Floats(ImageShape(s)), at.Weights(WeightShape(s))},
          Conv2dAttributes{.padding = s.padding});
  ExpectRight(at);
}

TEST_P(Winograd, TakesTheWeightsOfTheMomentWhereTheyAreNotStable) {
  const Sizes& s = GetParam();
  OpCase at(2);
  at.Emit(Op::kConv2d, {at.Floats(ImageShape(s)), at.Floats(WeightShape(s))},
          Conv2dAttributes{.padding = s.padding});
  ExpectRight(at);
}

TEST_P(Winograd, GivesTheGradientByImagesOfTheReference) {
  const Sizes& s = GetParam();
  OpCase at(3);
  at.Emit(Op::kConv2dInputGrad,
          {at.Floats(ResultShape(s)), at.Floats(WeightShape(s))},
          Conv2dGradAttributes{{.padding = s.padding}, ImageShape(s), false});
  ExpectRight(at);
}

TEST_P(Winograd, AddsBiasAndResidualAndCutsBelowZero) {
  const Sizes& s = GetParam();
  for (const bool residual : {false, true}) {
    OpCase at(4);
    Conv2dAttributes conv{.padding = s.padding};
    conv.epilogue = {true, residual, Activation::kRelu};
    std::vector<ValueId> inputs = {at.Floats(ImageShape(s)),
                                   at.Weights(WeightShape(s)),
                                   at.Weights({s.filters})};
    if (residual) inputs.push_back(at.Floats(ResultShape(s)));
    at.Emit(Op::kConv2d, inputs, conv);
    ExpectRight(at);
  }
}

// Volumes, with more or less padding before and behind, and windows of one or
// several slices.
struct VolumeSizes {
  Shape x, w, y;
  Padding padding;
};

const VolumeSizes kVolumes[] = {
    {{1, 64, 4, 12, 12},
     {64, 64, 3, 3, 3},
     {1, 64, 4, 12, 12},
     Padding(Extent{1, 1, 1})},
    {{2, 128, 3, 9, 8},
     {64, 128, 2, 3, 3},
     {2, 64, 4, 9, 10},
     {Extent{1, 2, 0}, Extent{1, 2, 2}}},
    {{2, 64, 5, 8, 9},
     {128, 64, 1, 3, 3},
     {2, 128, 5, 8, 9},
     Padding(Extent{1, 1, 0})},
};

Conv2dAttributes VolumeConv(const VolumeSizes& s) {
  return {.stride = {1, 1, 1}, .padding = s.padding, .dilation = {1, 1, 1}};
}

TEST(WinogradTest, ConvolvesVolumes) {
  for (const VolumeSizes& s : kVolumes) {
    SCOPED_TRACE(s.x.ToString());
    for (const bool residual : {false, true}) {
      OpCase at(7);
      Conv2dAttributes conv = VolumeConv(s);
      conv.epilogue = {true, residual, Activation::kRelu, {}};
      std::vector<ValueId> inputs = {at.Floats(s.x), at.Weights(s.w),
                                     at.Weights({s.w[0]})};
      if (residual) inputs.push_back(at.Floats(s.y));
      at.Emit(Op::kConv2d, inputs, conv);
      ExpectRight(at);
    }
  }
}

TEST(WinogradTest, GivesTheGradientByVolumes) {
  for (const VolumeSizes& s : kVolumes) {
    SCOPED_TRACE(s.x.ToString());
    OpCase at(8);
    at.Emit(Op::kConv2dInputGrad, {at.Floats(s.y), at.Floats(s.w)},
            Conv2dGradAttributes{VolumeConv(s), s.x, false});
    ExpectRight(at);
  }
}

TEST(WinogradTest, AppliesTheActivationsOfEpilogues) {
  const auto unary = [](UnaryFunction function, double alpha, double beta) {
    return Epilogue{true, false, Activation::kUnary, {function, alpha, beta}};
  };
  for (const Epilogue& epilogue :
       {Epilogue{true, false, Activation::kSigmoid, {}},
        Epilogue{true, false, Activation::kTanh, {}},
        unary(UnaryFunction::kClip, 0.25, 6),
        unary(UnaryFunction::kLeakyRelu, 0.1, 0),
        unary(UnaryFunction::kSilu, 0, 0),
        unary(UnaryFunction::kHardSwish, 0, 0)}) {
    OpCase at(6);
    at.Emit(Op::kConv2d,
            {at.Floats({4, 32, 9, 9}), at.Weights({32, 32, 3, 3}, -0.1, 0.1),
             at.Weights({32})},
            Conv2dAttributes{.padding = {1, 1}, .epilogue = epilogue});
    ExpectRight(at);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, Winograd,
    ::testing::Values(
        Sizes{8, 32, 32, 8, 8, {1, 1}}, Sizes{7, 48, 80, 7, 9, {1, 1}},
        Sizes{11, 80, 32, 5, 14, {0, 0}}, Sizes{32, 144, 48, 3, 3, {1, 1}},
        Sizes{3, 32, 48, 11, 10, {2, 2}},
        Sizes{6, 64, 64, 6, 12, {Extent{0, 1}, Extent{2, 1}}},
        Sizes{32, 32, 112, 1, 3, {2, 1}}, Sizes{8, 32, 32, 2, 5, {3, 3}}));

// There are enough images that their tiles are transformed in several groups
// and multiplied in several parts. Each image must come out as it does alone.
TEST(WinogradTest, AnImageDoesNotDependOnItsNeighbours) {
  constexpr int64_t kImages = 60, kEdge = 9, kChannels = 256;
  const auto run = [](int64_t images, int64_t filters) {
    OpCase at(5);
    at.Emit(Op::kConv2d,
            {at.Floats({images, kChannels, kEdge, kEdge}),
             at.Weights({filters, kChannels, 3, 3})},
            Conv2dAttributes{.padding = {1, 1}});
    at.UseChannelsLast();
    reference::Numbers& x = at.inputs.at("input0");
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t cell = i % static_cast<size_t>(kChannels * kEdge * kEdge);
      x[i] = static_cast<double>(cell % 37) / 37 - 0.5;
    }
    reference::Numbers& weights = at.persistents.at("weight1");
    for (size_t i = 0; i < weights.size(); ++i) {
      weights[i] = static_cast<double>(i % 31) / 31 - 0.5;
    }
    return ResultsOf(at, 2);
  };
  for (const int64_t filters : {32, 128}) {  // few kernels and many kernels
    const reference::Numbers one = run(1, filters);
    const reference::Numbers all = run(kImages, filters);
    ASSERT_EQ(all.size(), one.size() * kImages);
    for (size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(all[i], one[i % one.size()]) << i;
    }
  }
}

}  // namespace
}  // namespace gpupool::engine
