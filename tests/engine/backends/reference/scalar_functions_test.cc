#include "engine/backends/reference/scalar_functions.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/engine/backends/reference/scalar_function_values.h"

namespace gpupool::engine::reference {
namespace {

constexpr double kInf = HUGE_VAL;

double At(UnaryFunction function, double x, double alpha = 0, double beta = 0) {
  return Apply(UnaryAttributes{function, alpha, beta}, x);
}

double Whole(BinaryFunction function, double a, double b) {
  return Apply(function, DType::kInt64, a, b);
}
double Real(BinaryFunction function, double a, double b) {
  return Apply(function, DType::kFloat32, a, b);
}

TEST(UnaryFunctionTest, KnownValues) {
  EXPECT_EQ(At(UnaryFunction::kSign, -3), -1);
  EXPECT_EQ(At(UnaryFunction::kSign, 0), 0);
  EXPECT_EQ(At(UnaryFunction::kClip, 5, -1, 2), 2);
  EXPECT_EQ(At(UnaryFunction::kClip, -5, -1, 2), -1);
  EXPECT_EQ(At(UnaryFunction::kReciprocal, 4), 0.25);
  EXPECT_EQ(At(UnaryFunction::kFloor, -1.5), -2);
  EXPECT_EQ(At(UnaryFunction::kCeil, -1.5), -1);
  EXPECT_EQ(At(UnaryFunction::kLeakyRelu, -2, 0.25), -0.5);
  EXPECT_NEAR(At(UnaryFunction::kElu, -1, 2), -1.2642411176571153, 1e-14);
  EXPECT_NEAR(At(UnaryFunction::kSelu, -1, 2, 3), -3.792723352971346, 1e-14);
  EXPECT_NEAR(At(UnaryFunction::kCelu, -1, 2), -0.7869386805747332, 1e-14);
  EXPECT_NEAR(At(UnaryFunction::kSoftplus, 1), 1.3132616875182228, 1e-14);
  EXPECT_EQ(At(UnaryFunction::kSoftsign, -3), -0.75);
  EXPECT_EQ(At(UnaryFunction::kHardSigmoid, 1, 0.2, 0.5), 0.7);
  EXPECT_EQ(At(UnaryFunction::kHardSwish, 3), 3);
  EXPECT_EQ(At(UnaryFunction::kHardSwish, -3), 0);
  EXPECT_NEAR(At(UnaryFunction::kSilu, 1), 0.7310585786300049, 1e-14);
  EXPECT_NEAR(At(UnaryFunction::kMish, 1), 0.8650983882673103, 1e-14);
  EXPECT_EQ(At(UnaryFunction::kShrink, 2, 1, 0.5), 1.5);
  EXPECT_EQ(At(UnaryFunction::kShrink, -2, 1, 0.5), -1.5);
  EXPECT_EQ(At(UnaryFunction::kShrink, 1, 1, 0.5), 0);
  EXPECT_EQ(At(UnaryFunction::kThresholdedRelu, 1, 1), 0);
  EXPECT_EQ(At(UnaryFunction::kThresholdedRelu, 1.5, 1), 1.5);
  EXPECT_EQ(At(UnaryFunction::kNot, 0), 1);
  EXPECT_EQ(At(UnaryFunction::kNot, 1), 0);
}

// Within a few units in the last place, or of 1e-16 where numbers cancel.
void ExpectClose(double got, double want) {
  EXPECT_LE(std::abs(got - want), 1e-14 * std::abs(want) + 1e-16)
      << got << " instead of " << want;
}

// The numbers have 17 digits and come from the definitions by another program.
TEST(UnaryFunctionTest, ValuesAndSlopesAreThoseOfManyDigits) {
  for (const auto& known : kUnaryValues) {
    SCOPED_TRACE(::testing::Message()
                 << "function " << static_cast<int>(known.function) << " at "
                 << known.x);
    const UnaryAttributes unary{known.function, kAlpha, kBeta};
    ExpectClose(Apply(unary, known.x), known.y);
    ExpectClose(Derivative(unary, known.x), known.slope);
  }
}

TEST(ActivationTest, ValuesAndSlopesAreThoseOfManyDigits) {
  for (const auto& known : kActivationValues) {
    SCOPED_TRACE(::testing::Message()
                 << "activation " << static_cast<int>(known.function) << " at "
                 << known.x);
    ExpectClose(Activate(known.function, known.x), known.y);
    const bool by_input = known.function == Activation::kGelu ||
                          known.function == Activation::kGeluTanh;
    ExpectClose(ActivationSlope(known.function, by_input ? known.x : known.y),
                known.slope);
  }
}

TEST(UnaryFunctionTest, LargeNumbersNeitherOverflowNorCancel) {
  EXPECT_EQ(At(UnaryFunction::kSoftplus, 1e300), 1e300);
  EXPECT_EQ(At(UnaryFunction::kMish, 1e300), 1e300);
  EXPECT_EQ(At(UnaryFunction::kSilu, 1e300), 1e300);
  EXPECT_EQ(At(UnaryFunction::kElu, -1e300, 2), -2);
  EXPECT_EQ(At(UnaryFunction::kElu, -kInf, 2), -2);
  EXPECT_EQ(At(UnaryFunction::kSilu, -1e4), 0);
  for (const double x : {-1e4, 1e4}) {
    const double end = x < 0 ? 0 : 1;
    EXPECT_EQ(Derivative({UnaryFunction::kSoftplus}, x), end);
    EXPECT_EQ(Derivative({UnaryFunction::kMish}, x), end);
    EXPECT_EQ(Derivative({UnaryFunction::kSilu}, x), end);
    EXPECT_EQ(ActivationSlope(Activation::kGelu, x), end);
    EXPECT_EQ(ActivationSlope(Activation::kGeluTanh, x), end);
  }
}

TEST(UnaryFunctionTest, RoundGoesToTheEvenNeighbour) {
  EXPECT_EQ(At(UnaryFunction::kRound, 0.5), 0);
  EXPECT_EQ(At(UnaryFunction::kRound, 1.5), 2);
  EXPECT_EQ(At(UnaryFunction::kRound, -2.5), -2);
}

TEST(UnaryFunctionTest, IsInfTellsTheSigns) {
  EXPECT_EQ(At(UnaryFunction::kIsInf, -kInf), 1);
  EXPECT_EQ(At(UnaryFunction::kIsInf, -kInf, 1), 0);
  EXPECT_EQ(At(UnaryFunction::kIsInf, kInf, 1), 1);
  EXPECT_EQ(At(UnaryFunction::kIsInf, kInf, -1), 0);
  EXPECT_EQ(At(UnaryFunction::kIsInf, 1), 0);
}

TEST(UnaryFunctionTest, NanStaysAndLargeNumbersDoNotOverflow) {
  for (int i = 0; i < static_cast<int>(UnaryFunction::kIsNan); ++i) {
    const auto function = static_cast<UnaryFunction>(i);
    EXPECT_TRUE(std::isnan(At(function, NAN, 0.5, 0.25))) << i;
  }
  EXPECT_EQ(At(UnaryFunction::kIsNan, NAN), 1);
  EXPECT_EQ(At(UnaryFunction::kSoftplus, 1000), 1000);
  EXPECT_EQ(At(UnaryFunction::kSilu, -1000), 0);
  EXPECT_EQ(At(UnaryFunction::kMish, 1000), 1000);
}

TEST(UnaryFunctionTest, DerivativesAtKinksAreThoseOfPyTorch) {
  const auto slope = [](UnaryFunction function, double x, double alpha = 0,
                        double beta = 0) {
    return Derivative(UnaryAttributes{function, alpha, beta}, x);
  };
  EXPECT_EQ(slope(UnaryFunction::kAbs, 0), 0);
  EXPECT_EQ(slope(UnaryFunction::kClip, 1, 0, 1), 1);
  EXPECT_EQ(slope(UnaryFunction::kClip, 1.1, 0, 1), 0);
  EXPECT_EQ(slope(UnaryFunction::kLeakyRelu, 0, 0.25), 0.25);
  EXPECT_EQ(slope(UnaryFunction::kElu, 0, 2), 2);
  EXPECT_EQ(slope(UnaryFunction::kHardSigmoid, 2.5, 0.2, 0.5), 0);
  EXPECT_EQ(slope(UnaryFunction::kHardSwish, -3.5), 0);
  EXPECT_EQ(slope(UnaryFunction::kShrink, 0.5, 0.5), 0);
  EXPECT_EQ(slope(UnaryFunction::kThresholdedRelu, 1, 1), 0);
  EXPECT_EQ(slope(UnaryFunction::kFloor, 1), 0);
}

TEST(BinaryFunctionTest, IntegerDivisionGoesTowardsZero) {
  EXPECT_EQ(Whole(BinaryFunction::kDivide, 7, 2), 3);
  EXPECT_EQ(Whole(BinaryFunction::kDivide, -7, 2), -3);
  EXPECT_EQ(Whole(BinaryFunction::kDivide, 7, 0), 0);
  EXPECT_EQ(Real(BinaryFunction::kDivide, -7, 2), -3.5);
  EXPECT_EQ(Real(BinaryFunction::kDivide, 7, 0), kInf);
}

TEST(BinaryFunctionTest, ModuloHasTheSignOfTheDivisorRemainderOfTheDividend) {
  EXPECT_EQ(Whole(BinaryFunction::kModulo, -7, 3), 2);
  EXPECT_EQ(Whole(BinaryFunction::kModulo, 7, -3), -2);
  EXPECT_EQ(Whole(BinaryFunction::kModulo, 6, -3), 0);
  EXPECT_EQ(Whole(BinaryFunction::kRemainder, -7, 3), -1);
  EXPECT_EQ(Whole(BinaryFunction::kRemainder, 7, -3), 1);
  EXPECT_EQ(Real(BinaryFunction::kModulo, -0.5, 2), 1.5);
  EXPECT_EQ(Whole(BinaryFunction::kModulo, 7, 0), 0);
  EXPECT_TRUE(std::isnan(Real(BinaryFunction::kModulo, 7, 0)));
}

TEST(BinaryFunctionTest, PowersOfIntegersAreWhole) {
  EXPECT_EQ(Whole(BinaryFunction::kPower, 5, 3), 125);
  EXPECT_EQ(Whole(BinaryFunction::kPower, -3, 3), -27);
  EXPECT_EQ(Whole(BinaryFunction::kPower, 2, -1), 0);
  EXPECT_EQ(Whole(BinaryFunction::kPower, -1, -3), -1);
  EXPECT_EQ(Whole(BinaryFunction::kPower, 0, -1), 0);
  EXPECT_EQ(Real(BinaryFunction::kPower, 2, -1), 0.5);
}

TEST(BinaryFunctionTest, ExtremesKeepNan) {
  for (const auto f : {BinaryFunction::kMinimum, BinaryFunction::kMaximum}) {
    EXPECT_TRUE(std::isnan(Real(f, NAN, 1)));
    EXPECT_TRUE(std::isnan(Real(f, 1, NAN)));
  }
  EXPECT_EQ(Real(BinaryFunction::kMinimum, 2, 1), 1);
  EXPECT_EQ(Real(BinaryFunction::kMaximum, 2, 1), 2);
}

// Shifting bit by bit gives the same.
TEST(BinaryFunctionTest, ShiftsLoseTheBitsBeyondTheWidth) {
  EXPECT_EQ(Whole(BinaryFunction::kShiftLeft, 1, 62), 0x1p62);
  EXPECT_EQ(Whole(BinaryFunction::kShiftLeft, 1, 63), -0x1p63);
  EXPECT_EQ(Whole(BinaryFunction::kShiftLeft, 3, 63), -0x1p63);
  EXPECT_EQ(Whole(BinaryFunction::kShiftLeft, -1, 63), -0x1p63);
  for (const double b : {64, 65, 1000}) {
    EXPECT_EQ(Whole(BinaryFunction::kShiftLeft, 1, b), 0) << b;
    EXPECT_EQ(Whole(BinaryFunction::kShiftLeft, -7, b), 0) << b;
    EXPECT_EQ(Whole(BinaryFunction::kShiftRight, 7, b), 0) << b;
    EXPECT_EQ(Whole(BinaryFunction::kShiftRight, -7, b), -1) << b;
  }
}

TEST(BinaryFunctionTest, ShiftsLogicAndComparisons) {
  EXPECT_EQ(Whole(BinaryFunction::kShiftLeft, 3, 2), 12);
  EXPECT_EQ(Whole(BinaryFunction::kShiftRight, 13, 2), 3);
  EXPECT_EQ(Whole(BinaryFunction::kShiftLeft, 12, -2), 3);
  EXPECT_EQ(Apply(BinaryFunction::kAnd, DType::kBool, 1, 0), 0);
  EXPECT_EQ(Apply(BinaryFunction::kOr, DType::kBool, 1, 0), 1);
  EXPECT_EQ(Apply(BinaryFunction::kXor, DType::kBool, 1, 1), 0);
  EXPECT_EQ(Whole(BinaryFunction::kAnd, 12, -6), 8);
  EXPECT_EQ(Whole(BinaryFunction::kOr, 12, 10), 14);
  EXPECT_EQ(Whole(BinaryFunction::kXor, 12, -1), -13);
  EXPECT_EQ(Whole(BinaryFunction::kAnd, 0x1p63, 1), 1);
  EXPECT_EQ(Real(BinaryFunction::kEqual, NAN, NAN), 0);
  EXPECT_EQ(Real(BinaryFunction::kLess, 1, 1), 0);
  EXPECT_EQ(Real(BinaryFunction::kLessOrEqual, 1, 1), 1);
  EXPECT_EQ(Real(BinaryFunction::kGreater, 2, 1), 1);
  EXPECT_EQ(Real(BinaryFunction::kGreaterOrEqual, 0, 1), 0);
}

}  // namespace
}  // namespace gpupool::engine::reference
