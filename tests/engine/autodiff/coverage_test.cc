// One small finite-difference case per differentiable op of the table, so that
// no op is left out. The forms of an op are tested with its family.
#include <gmock/gmock.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/autodiff/gradient_fixture.h"

namespace gpupool::engine {
namespace {

// A weight, or a constant if numbers are given.
struct Argument {
  TensorType type;
  std::vector<double> numbers;
};

struct Case {
  Op op;
  Attributes attributes;
  std::vector<Argument> arguments;
};

Argument W(const Shape& shape) { return {{DType::kFloat32, shape}, {}}; }
Argument I(const Shape& shape, std::vector<double> numbers) {
  return {{DType::kInt64, shape}, std::move(numbers)};
}

void AddElementwise(std::vector<Case>& cases) {
  cases.push_back({Op::kUnary, UnaryAttributes{UnaryFunction::kSin}, {W({3})}});
  cases.push_back({Op::kBinary,
                   BinaryAttributes{BinaryFunction::kMultiply},
                   {W({2, 1}), W({3})}});
  cases.push_back(
      {Op::kWhere, {}, {{{DType::kBool, {3}}, {1, 0, 1}}, W({2, 3}), W({3})}});
  cases.push_back({Op::kCast, CastAttributes{DType::kFloat64}, {W({3})}});
  cases.push_back({Op::kAdd, {}, {W({2, 3}), W({2, 3})}});
  cases.push_back({Op::kRelu, {}, {W({2, 3})}});
  cases.push_back({Op::kGelu, GeluAttributes{}, {W({2, 3})}});
  cases.push_back({Op::kSigmoid, {}, {W({2, 3})}});
  cases.push_back({Op::kTanh, {}, {W({2, 3})}});
  cases.push_back(
      {Op::kDropout, DropoutAttributes{}, {W({3, 4}), I({}, {5}), I({}, {1})}});
  cases.push_back({Op::kSoftmax, {}, {W({2, 3})}});
  cases.push_back({Op::kLogSoftmax, {}, {W({2, 3})}});
  cases.push_back({Op::kReduce, ReduceAttributes{.axes = {0}}, {W({2, 3})}});
  cases.push_back({Op::kCumSum, CumSumAttributes{.axis = 1}, {W({2, 3})}});
}

void AddMovement(std::vector<Case>& cases) {
  cases.push_back({Op::kReshape, ShapeAttributes{{3, 2}}, {W({2, 3})}});
  cases.push_back({Op::kBroadcast, ShapeAttributes{{2, 3}}, {W({3})}});
  cases.push_back({Op::kTranspose, TransposeAttributes{{1, 0}}, {W({2, 3})}});
  cases.push_back({Op::kSlice, SliceAttributes{{3}, {-2}, {2}}, {W({5})}});
  cases.push_back({Op::kPad, PadAttributes{{1}, {2}}, {W({3})}});
  cases.push_back({Op::kConcat, AxisAttributes{1}, {W({2, 1}), W({2, 3})}});
  cases.push_back(
      {Op::kGather, AxisAttributes{0}, {W({3, 2}), I({4}, {2, 0, -1, 2})}});
  cases.push_back({Op::kGatherElements,
                   AxisAttributes{1},
                   {W({2, 3}), I({2, 2}, {2, 0, 1, 1})}});
  cases.push_back(
      {Op::kGatherNd, GatherNdAttributes{}, {W({2, 3}), I({3, 1}, {1, 0, 1})}});
  cases.push_back({Op::kScatterElements,
                   ScatterAttributes{.axis = 1},
                   {W({2, 3}), I({2, 1}, {2, 0}), W({2, 1})}});
  cases.push_back({Op::kScatterNd,
                   ScatterAttributes{.reduction = ScatterReduction::kAdd},
                   {W({3, 2}), I({2, 1}, {1, 1}), W({2, 2})}});
  cases.push_back({Op::kTopK, TopKAttributes{.axis = 1, .k = 2}, {W({2, 4})}});
  const ResizeAxis axis{.axis = 1,
                        .size = 3,
                        .taps = 2,
                        .indices = {0, 1, 1, 0, 1, 1},
                        .weights = {0.5, 0.5, 1, 0, 0.25, 0.75}};
  cases.push_back({Op::kResize, ResizeAttributes{{axis}}, {W({2, 2})}});
}

void AddProducts(std::vector<Case>& cases) {
  cases.push_back({Op::kMatMul, MatMulAttributes{}, {W({2, 3}), W({3, 2})}});
  cases.push_back({Op::kBatchMatMul,
                   BatchMatMulAttributes{.scale = 0.5},
                   {W({2, 2, 3}), W({3, 2})}});
  const Argument codes{{DType::kUint8, {2, 2, 1}}, {0x5a, 0xf0, 0x33, 0x81}};
  cases.push_back({Op::kBlockedMatMul,
                   BlockedMatMulAttributes{4, true},
                   {W({3, 4}), codes, W({2, 2}), W({2, 2})}});
  cases.push_back({Op::kAttention,
                   AttentionAttributes{.scale = 0.5, .with_lse = true},
                   {W({1, 2, 3, 2}), W({1, 2, 4, 2}), W({1, 2, 4, 3})}});
  const Conv2dAttributes conv{.stride = {2, 1}, .padding = {1, 1}};
  cases.push_back({Op::kConv2d, conv, {W({1, 2, 4, 3}), W({2, 2, 2, 2})}});
  cases.push_back({Op::kConv2dInputGrad,
                   Conv2dGradAttributes{.conv = conv, .result = {1, 2, 4, 3}},
                   {W({1, 2, 3, 4}), W({2, 2, 2, 2})}});
}

void AddNormsAndPools(std::vector<Case>& cases) {
  const Pool2dAttributes pool{.kernel = {2, 2}, .stride = {1, 1}};
  cases.push_back({Op::kAvgPool, pool, {W({1, 2, 3, 3})}});
  Pool2dAttributes max_pool = pool;
  max_pool.with_argmax = true;
  cases.push_back({Op::kMaxPool, max_pool, {W({1, 2, 3, 3})}});
  cases.push_back({Op::kGlobalAvgPool, {}, {W({1, 2, 3, 3})}});
  cases.push_back({Op::kLrn, LrnAttributes{.size = 3}, {W({1, 4, 2, 1})}});
  cases.push_back({Op::kBatchNormTraining,
                   NormAttributes{.epsilon = 1e-3},
                   {W({4, 2, 2, 1}), W({2}), W({2})}});
  cases.push_back({Op::kLayerNorm,
                   NormAttributes{.epsilon = 1e-3, .with_statistics = true},
                   {W({3, 4}), W({4}), W({4})}});
  cases.push_back(
      {Op::kCrossEntropy, LossAttributes{}, {W({3, 4}), I({3}, {1, 0, 3})}});
  cases.push_back(
      {Op::kMeanSquaredError, LossAttributes{}, {W({3, 4}), W({3, 4})}});
}

const std::vector<Case>& Cases() {
  static const auto* cases = [] {
    auto* list = new std::vector<Case>;
    AddElementwise(*list);
    AddMovement(*list);
    AddProducts(*list);
    AddNormsAndPools(*list);
    return list;
  }();
  return *cases;
}

TEST(GradientCoverageTest, EveryDifferentiableOpHasACaseAndNoOtherOp) {
  std::set<std::string> covered, differentiable;
  for (const Case& c : Cases()) covered.insert(std::string(OpName(c.op)));
  for (int i = 0; i < kOpCount; ++i) {
    const OpInfo& info = Info(static_cast<Op>(i));
    if (info.differentiable) differentiable.insert(std::string(info.name));
  }
  EXPECT_EQ(covered, differentiable);
}

class GradientOfTest : public GradientTest,
                       public ::testing::WithParamInterface<size_t> {};

TEST_P(GradientOfTest, MatchesDifferences) {
  const Case& c = Cases()[GetParam()];
  ValueIds inputs;
  for (const Argument& argument : c.arguments) {
    inputs.push_back(
        argument.numbers.empty()
            ? Weight(absl::StrCat("w", inputs.size()), argument.type.shape)
            : builder_.Constant(argument.type, argument.numbers));
  }
  const ValueId y = Emit(c.op, inputs, c.attributes);
  ASSERT_TRUE(y.valid());
  if (builder_.shape(y).rank() > 0) return Check(y);
  graph_.AddOutput("loss", y);
  ExpectGradientsMatchDifferences(graph_, 1);
}

INSTANTIATE_TEST_SUITE_P(Ops, GradientOfTest,
                         ::testing::Range(size_t{0}, Cases().size()),
                         [](const ::testing::TestParamInfo<size_t>& info) {
                           return std::string(OpName(Cases()[info.param].op));
                         });

}  // namespace
}  // namespace gpupool::engine
