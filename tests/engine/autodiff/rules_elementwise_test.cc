#include <gmock/gmock.h>

#include <cmath>

#include "tests/engine/autodiff/gradient_fixture.h"

namespace gpupool::engine {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

class ElementwiseGradientTest : public GradientTest {
 protected:
  ValueId Number(double number) {
    return builder_.Constant({DType::kFloat32, {}}, {number});
  }
  ValueId Binary(BinaryFunction function, ValueId a, ValueId b) {
    return Emit(Op::kBinary, {a, b}, BinaryAttributes{function});
  }

  // Returns numbers in [low, high) that depend on a weight in [-1, 1).
  ValueId Between(const std::string& name, const Shape& shape, double low,
                  double high) {
    const ValueId scaled =
        Binary(BinaryFunction::kMultiply, Weight(name, shape),
               Number((high - low) / 2));
    return Binary(BinaryFunction::kAdd, scaled, Number((high + low) / 2));
  }

  // Returns the gradient of the sum of `y` at these weights, in the order of
  // `names`.
  std::vector<reference::Numbers> GradientsOfSum(
      ValueId y, reference::NamedNumbers state,
      const std::vector<std::string>& names) {
    ReduceAttributes all;
    for (int i = 0; i < builder_.shape(y).rank(); ++i) all.axes.push_back(i);
    const ValueId loss = Emit(Op::kReduce, {y}, all);
    ValueIds weights;
    for (const std::string& name : names) {
      weights.push_back(graph_.FindValue(name)->id);
    }
    const auto gradients = AddGradients(graph_, loss, weights);
    EXPECT_TRUE(gradients.ok()) << gradients.status();
    if (!gradients.ok()) return std::vector<reference::Numbers>(names.size());
    for (size_t i = 0; i < names.size(); ++i) {
      graph_.AddOutput(names[i], (*gradients)[i]);
    }
    const auto outputs = reference::Run(graph_, {}, state);
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    std::vector<reference::Numbers> result;
    for (const std::string& name : names) result.push_back(outputs->at(name));
    return result;
  }
};

struct UnaryCase {
  UnaryAttributes unary;
  double low = -2;
  double high = 2;
};

// Returns a range in which the function is defined and has few kinks.
UnaryCase CaseOf(UnaryFunction function) {
  switch (function) {
    case UnaryFunction::kClip:
      return {{function, -0.5, 0.7}};
    case UnaryFunction::kLog:
    case UnaryFunction::kSqrt:
    case UnaryFunction::kReciprocal:
      return {{function}, 0.5, 2};
    case UnaryFunction::kTan:
      return {{function}, -1, 1};
    case UnaryFunction::kAsin:
    case UnaryFunction::kAcos:
    case UnaryFunction::kAtanh:
      return {{function}, -0.8, 0.8};
    case UnaryFunction::kAcosh:
      return {{function}, 1.5, 3};
    case UnaryFunction::kLeakyRelu:
    case UnaryFunction::kElu:
      return {{function, 0.3}};
    case UnaryFunction::kSelu:
      return {{function, 1.67, 1.05}};
    case UnaryFunction::kCelu:
      return {{function, 0.8}};
    case UnaryFunction::kHardSigmoid:
      return {{function, 0.4, 0.5}};
    case UnaryFunction::kHardSwish:
      return {{function}, -4, 4};
    case UnaryFunction::kShrink:
      return {{function, 0.6, 0.2}};
    case UnaryFunction::kThresholdedRelu:
      return {{function, 0.4}};
    default:
      return {{function}};
  }
}

// The last three give bool.
TEST_F(ElementwiseGradientTest, EveryUnaryFunctionOfFloatingNumbers) {
  for (int i = 0; i < static_cast<int>(UnaryFunction::kIsNan); ++i) {
    SCOPED_TRACE(absl::StrCat("function ", i));
    const UnaryCase c = CaseOf(static_cast<UnaryFunction>(i));
    Reset();
    Check(Emit(Op::kUnary, {Between("x", {3, 5}, c.low, c.high)}, c.unary));
  }
}

struct BinaryCase {
  BinaryFunction function;
  double low_a, high_a, low_b, high_b;
};

constexpr BinaryCase kBinaryCases[] = {
    {BinaryFunction::kAdd, -1, 1, -1, 1},
    {BinaryFunction::kSubtract, -1, 1, -1, 1},
    {BinaryFunction::kMultiply, -1, 1, -1, 1},
    {BinaryFunction::kDivide, -1, 1, 0.5, 2},
    {BinaryFunction::kPower, 0.5, 2, -2, 2},
    {BinaryFunction::kMinimum, -1, 1, -1, 1},
    {BinaryFunction::kMaximum, -1, 1, -1, 1},
    {BinaryFunction::kModulo, -3, 3, 0.7, 1.5},
    {BinaryFunction::kRemainder, -3, 3, 0.7, 1.5},
};

TEST_F(ElementwiseGradientTest, EveryBinaryFunctionWithBroadcasting) {
  const std::pair<Shape, Shape> shapes[] = {
      {{2, 3}, {2, 3}}, {{2, 1, 3}, {4, 1}}, {{3}, {2, 2, 3}}, {{2, 3}, {}}};
  for (const BinaryCase& c : kBinaryCases) {
    for (const auto& [a, b] : shapes) {
      SCOPED_TRACE(absl::StrCat("function ", static_cast<int>(c.function),
                                " of ", a.ToString(), " and ", b.ToString()));
      Reset();
      Check(Binary(c.function, Between("left", a, c.low_a, c.high_a),
                   Between("right", b, c.low_b, c.high_b)));
    }
  }
}

TEST_F(ElementwiseGradientTest, APowerWithAKnownExponent) {
  for (const double exponent : {-1.0, 0.0, 1.0, 2.0, 3.0}) {
    SCOPED_TRACE(exponent);
    Reset();
    Check(Binary(BinaryFunction::kPower, Between("x", {2, 3}, -2, -0.5),
                 Number(exponent)));
  }
}

TEST_F(ElementwiseGradientTest, APowerAtZeroAndOfNegativeNumbersStaysFinite) {
  const ValueId y =
      Binary(BinaryFunction::kPower, Weight("a", {4}), Weight("b", {4}));
  const auto gradients = GradientsOfSum(
      y, {{"a", {0, 0, -2, 2}}, {"b", {0, 2, 3, -1}}}, {"a", "b"});
  EXPECT_THAT(gradients[0], ElementsAre(0, 0, 12, -0.25));
  EXPECT_THAT(gradients[1], Pointwise(DoubleNear(1e-12),
                                      {0.0, 0.0, 0.0, 0.5 * std::log(2.0)}));
}

TEST_F(ElementwiseGradientTest, EqualOperandsShareTheGradientOfMaximum) {
  const ValueId y =
      Binary(BinaryFunction::kMaximum, Weight("a", {3}), Weight("b", {3}));
  const auto gradients =
      GradientsOfSum(y, {{"a", {1, 2, 3}}, {"b", {3, 2, 1}}}, {"a", "b"});
  EXPECT_THAT(gradients[0], ElementsAre(0, 0.5, 1));
  EXPECT_THAT(gradients[1], ElementsAre(1, 0.5, 0));
}

TEST_F(ElementwiseGradientTest, WhereWithBroadcasting) {
  const ValueId condition =
      builder_.Constant({DType::kBool, {4, 1}}, {1, 0, 0, 1});
  Check(
      Emit(Op::kWhere, {condition, Weight("a", {3}), Weight("b", {2, 1, 1})}));
}

TEST_F(ElementwiseGradientTest, CastBetweenFloatingTypes) {
  Check(
      Emit(Op::kCast, {Weight("x", {2, 3})}, CastAttributes{DType::kFloat64}));
}

TEST_F(ElementwiseGradientTest, EveryReductionOverAllChoicesOfAxes) {
  for (const auto function :
       {ReduceFunction::kSum, ReduceFunction::kMean, ReduceFunction::kMax,
        ReduceFunction::kMin, ReduceFunction::kProduct}) {
    for (int choice = 1; choice < 8; ++choice) {
      SCOPED_TRACE(absl::StrCat("function ", static_cast<int>(function),
                                ", axes ", choice));
      ReduceAttributes reduce{.function = function,
                              .keep_dims = choice % 2 == 0};
      for (int axis = 0; axis < 3; ++axis) {
        if ((choice >> axis & 1) != 0) reduce.axes.push_back(axis);
      }
      Reset();
      const ValueId y = Emit(Op::kReduce, {Weight("x", {2, 3, 2})}, reduce);
      Check(Emit(Op::kReshape, {y},
                 ShapeAttributes{{builder_.shape(y).elements()}}));
    }
  }
}

TEST_F(ElementwiseGradientTest, AProductWithZerosHasTheProductOfTheOthers) {
  const ValueId y =
      Emit(Op::kReduce, {Weight("x", {3, 3})},
           ReduceAttributes{.function = ReduceFunction::kProduct, .axes = {1}});
  const auto gradients =
      GradientsOfSum(y, {{"x", {2, 0, 3, 0, 0, 5, 1, 2, 3}}}, {"x"});
  EXPECT_THAT(gradients[0], ElementsAre(0, 6, 0, 0, 0, 0, 6, 3, 2));
}

TEST_F(ElementwiseGradientTest, EqualNumbersShareTheGradientOfTheirMaximum) {
  const ValueId y =
      Emit(Op::kReduce, {Weight("x", {2, 3})},
           ReduceAttributes{.function = ReduceFunction::kMax, .axes = {1}});
  const auto gradients = GradientsOfSum(y, {{"x", {1, 3, 3, 5, 4, 4}}}, {"x"});
  EXPECT_THAT(gradients[0], ElementsAre(0, 0.5, 0.5, 1, 0, 0));
}

TEST_F(ElementwiseGradientTest, CumSumInAllForms) {
  for (int form = 0; form < 4; ++form) {
    Reset();
    Check(Emit(
        Op::kCumSum, {Weight("x", {2, 4, 3})},
        CumSumAttributes{
            .axis = 1, .exclusive = form % 2 != 0, .reverse = form / 2 != 0}));
  }
}

TEST_F(ElementwiseGradientTest, Broadcast) {
  for (const Shape& shape : {Shape{3, 1}, Shape{4}, Shape{}, Shape{1, 3, 4}}) {
    Reset();
    Check(
        Emit(Op::kBroadcast, {Weight("x", shape)}, ShapeAttributes{{2, 3, 4}}));
  }
}

}  // namespace
}  // namespace gpupool::engine
