// Compares gradients of convolutions by their weights with the reference.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/backends/cpu/product/winograd.h"
#include "tests/engine/backends/cpu/graph_runner.h"
#include "tests/engine/backends/cpu/op_cases.h"

namespace gpupool::engine {
namespace {

constexpr double kGradientTolerance = 5e-6;  // relative to the largest gradient

struct GradientSizes {
  int64_t images, channels, filters, height, width;
  Padding padding;
  bool bias;
};

void PrintTo(const GradientSizes& s, std::ostream* out) {
  *out << s.images << "x" << s.channels << "->" << s.filters << " of "
       << s.height << "x" << s.width;
}

void Build(const GradientSizes& s, OpCase& at) {
  const int64_t height = s.height + s.padding.begin.h + s.padding.end.h - 2;
  const int64_t width = s.width + s.padding.begin.w + s.padding.end.w - 2;
  at.Emit(Op::kConv2dWeightGrad,
          {at.Floats({s.images, s.filters, height, width}),
           at.Floats({s.images, s.channels, s.height, s.width})},
          Conv2dGradAttributes{
              {.padding = s.padding}, {s.filters, s.channels, 3, 3}, s.bias});
  at.UseChannelsLast();
}

reference::NamedNumbers GradientsOf(OpCase& at, int threads) {
  reference::NamedNumbers state;
  const auto got = RunOnCpu(at.graph(), at.inputs, state, threads);
  EXPECT_TRUE(got.ok()) << got.status();
  return got.ok() ? *got : reference::NamedNumbers();
}

void ExpectNearGradient(const reference::Numbers& got,
                        const reference::Numbers& wanted,
                        double tolerance = kGradientTolerance) {
  ASSERT_EQ(got.size(), wanted.size());
  double largest = 0, difference = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::abs(wanted[i]));
    if (!(std::abs(got[i] - wanted[i]) <= difference)) {
      difference = std::abs(got[i] - wanted[i]);
    }
  }
  EXPECT_LE(difference, tolerance * largest);
}

class WinogradWeights : public ::testing::TestWithParam<GradientSizes> {};

// Expects that Winograd's algorithm is chosen for the case, and that it gives
// the right numbers, with the same bits for any number of threads.
void ExpectGradient(OpCase& at) {
  const CpuContext context(1);
  const Graph& graph = at.graph();
  const CompileRequest request{graph, graph.nodes()[0], {false, false}};
  const auto kernel = MakeWinogradWeightGrad(request, context);
  ASSERT_TRUE(kernel.ok() && *kernel != nullptr);
  reference::NamedNumbers state;
  const auto wanted = reference::Run(at.graph(), at.inputs, state);
  ASSERT_TRUE(wanted.ok()) << wanted.status();
  const reference::NamedNumbers one = GradientsOf(at, 1);
  ASSERT_EQ(one.size(), wanted->size());
  for (const auto& [name, numbers] : *wanted) {
    ExpectNearGradient(one.at(name), numbers);
  }
  EXPECT_EQ(GradientsOf(at, 2), one);
  EXPECT_EQ(GradientsOf(at, 3), one);
}

TEST_P(WinogradWeights, AreRightAndTheSameBitsWithAnyThreads) {
  OpCase at(1);
  Build(GetParam(), at);
  ExpectGradient(at);
}

TEST(WinogradWeightsTest, OfVolumesAreRight) {
  struct Volume {
    Shape x, w, dy;
    Padding padding;
  };
  for (const Volume& v : {Volume{{1, 64, 4, 12, 12},
                                 {64, 64, 3, 3, 3},
                                 {1, 64, 4, 12, 12},
                                 Padding(Extent{1, 1, 1})},
                          Volume{{2, 128, 3, 9, 8},
                                 {64, 128, 2, 3, 3},
                                 {2, 64, 4, 9, 10},
                                 {Extent{1, 2, 0}, Extent{1, 2, 2}}},
                          Volume{{2, 64, 5, 8, 9},
                                 {128, 64, 1, 3, 3},
                                 {2, 128, 5, 8, 9},
                                 Padding(Extent{1, 1, 0})}}) {
    SCOPED_TRACE(v.x.ToString());
    OpCase at(3);
    at.Emit(
        Op::kConv2dWeightGrad, {at.Floats(v.dy), at.Floats(v.x)},
        Conv2dGradAttributes{
            {.stride = {1, 1, 1}, .padding = v.padding, .dilation = {1, 1, 1}},
            v.w,
            true});
    ExpectGradient(at);
  }
}

INSTANTIATE_TEST_SUITE_P(
    GradientSizes, WinogradWeights,
    ::testing::Values(
        GradientSizes{8, 32, 32, 8, 8, {1, 1}, false},
        GradientSizes{7, 48, 80, 7, 9, {1, 1}, true},
        GradientSizes{11, 80, 32, 5, 14, {0, 0}, false},
        GradientSizes{32, 144, 48, 3, 3, {1, 1}, true},
        GradientSizes{3, 32, 48, 11, 10, {2, 2}, true},
        GradientSizes{6, 64, 64, 6, 12, {Extent{0, 1}, Extent{2, 1}}, false},
        GradientSizes{32, 32, 112, 1, 3, {2, 1}, true}));

// There are enough tiles that they are transformed in several groups.
TEST(WinogradWeightsTest, AddUpOverGroups) {
  constexpr int64_t kImages = 64;
  const auto run = [](int64_t images) {
    OpCase at(2);
    Build({images, 256, 32, 9, 9, {1, 1}, false}, at);
    for (auto& [name, numbers] : at.inputs) {
      const size_t image = numbers.size() / static_cast<size_t>(images);
      for (size_t i = 0; i < numbers.size(); ++i) {
        numbers[i] = static_cast<double>(i % image % 37) / 37 - 0.4;
      }
    }
    return GradientsOf(at, 2).at("output0");
  };
  reference::Numbers wanted = run(1);
  for (double& number : wanted) number *= kImages;
  // Equal addends are the worst case, because all are rounded in the same
  // direction.
  ExpectNearGradient(run(kImages), wanted, 2e-5);
}

}  // namespace
}  // namespace gpupool::engine
