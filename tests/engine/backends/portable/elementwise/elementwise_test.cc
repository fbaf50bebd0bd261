// Cases that the random cases of all back ends do not reach: integers, bool,
// casts between all types, special numbers, exact dropout.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "engine/graph/fused.h"
#include "tests/engine/backends/portable/compare.h"

namespace gpupool::engine::testing {
namespace {

constexpr DType kIntegers[] = {DType::kInt8, DType::kUint8, DType::kInt32,
                               DType::kInt64};
constexpr DType kAllTypes[] = {
    DType::kFloat32, DType::kFloat64, DType::kInt32,
    DType::kInt64,   DType::kUint8,   DType::kBool,
    DType::kInt8,    DType::kFloat16, DType::kBFloat16};

ValueId SmallIntegers(OpCase& at, const Shape& shape, DType dtype) {
  const bool is_signed = dtype != DType::kUint8 && dtype != DType::kBool;
  return at.Integers(shape, dtype, is_signed ? -7 : 0,
                     dtype == DType::kBool ? 1 : 7);
}

TEST(ElementwiseTest, EveryBinaryFunctionOfEveryInteger) {
  for (const DType dtype : kIntegers) {
    for (int f = 0; f < kBinaryFunctionCount; ++f) {
      const auto function = static_cast<BinaryFunction>(f);
      SCOPED_TRACE(absl::StrCat(DTypeName(dtype), " function ", f));
      OpCase at(static_cast<uint32_t>(f));
      const ValueId a = SmallIntegers(at, {5, 1, 9}, dtype);
      const bool shifts = function == BinaryFunction::kShiftLeft ||
                          function == BinaryFunction::kShiftRight;
      const ValueId b = shifts ? at.Integers({3, 9}, dtype, 0, 70)
                               : SmallIntegers(at, {3, 9}, dtype);
      at.Emit(Op::kBinary, {a, b}, BinaryAttributes{function});
      ExpectAgreement(at, 0);
    }
  }
}

TEST(ElementwiseTest, EveryBinaryFunctionOfBool) {
  for (int f = static_cast<int>(BinaryFunction::kAnd); f < kBinaryFunctionCount;
       ++f) {
    OpCase at(static_cast<uint32_t>(f));
    const ValueId a = SmallIntegers(at, {17}, DType::kBool);
    const ValueId b = SmallIntegers(at, {17}, DType::kBool);
    at.Emit(Op::kBinary, {a, b},
            BinaryAttributes{static_cast<BinaryFunction>(f)});
    ExpectAgreement(at, 0);
  }
}

TEST(ElementwiseTest, UnaryFunctionsOfIntegers) {
  for (const DType dtype : kIntegers) {
    for (const auto function : {UnaryFunction::kAbs, UnaryFunction::kNegate,
                                UnaryFunction::kSign, UnaryFunction::kClip}) {
      OpCase at(1);
      const ValueId x = SmallIntegers(at, {3, 11}, dtype);
      at.Emit(Op::kUnary, {x}, UnaryAttributes{function, -2.5, 4.5});
      ExpectAgreement(at, 0);
    }
  }
}

TEST(ElementwiseTest, CastsBetweenAllTypes) {
  for (const DType from : kAllTypes) {
    for (const DType to : kAllTypes) {
      SCOPED_TRACE(absl::StrCat(DTypeName(from), " to ", DTypeName(to)));
      OpCase at(3);
      const ValueId x = SmallIntegers(at, {4, 13}, from);
      at.Emit(Op::kCast, {x}, CastAttributes{to});
      ExpectAgreement(at, 0);
    }
  }
}

TEST(ElementwiseTest, WhereOfEveryTypeBroadcasts) {
  for (const DType dtype : kAllTypes) {
    OpCase at(5);
    const ValueId condition = SmallIntegers(at, {4, 1}, DType::kBool);
    const ValueId a = SmallIntegers(at, {8}, dtype);
    const ValueId b = SmallIntegers(at, {3, 1, 8}, dtype);
    at.Emit(Op::kWhere, {condition, a, b});
    ExpectAgreement(at, 0);
  }
}

// Applies a function to x, which has only special numbers.
void ExpectSpecialNumbers(Op op, const Attributes& attributes, DType dtype) {
  OpCase at(0);
  const ValueId x = at.Integers({10}, dtype, 0, 0);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  at.inputs.begin()->second = {NAN,  kInfinity, -kInfinity, 0.0, -0.0,
                               1e-3, -1,        1,          -80, 80};
  at.Emit(op, {x}, attributes);
  ExpectAgreement(at, std::max(ToleranceOf(dtype), 2e-6));
}

TEST(ElementwiseTest, SpecialNumbersThroughEveryUnaryFunction) {
  for (int f = 0; f < static_cast<int>(UnaryFunction::kNot); ++f) {
    SCOPED_TRACE(absl::StrCat("function ", f));
    const UnaryAttributes unary{static_cast<UnaryFunction>(f), 0.5, 1.5};
    ExpectSpecialNumbers(Op::kUnary, unary, DType::kFloat32);
    ExpectSpecialNumbers(Op::kUnary, unary, DType::kFloat64);
  }
}

TEST(ElementwiseTest, SpecialNumbersThroughTheActivations) {
  for (const Op op : {Op::kRelu, Op::kSigmoid, Op::kTanh}) {
    ExpectSpecialNumbers(op, {}, DType::kFloat32);
    ExpectSpecialNumbers(op, {}, DType::kBFloat16);
  }
}

TEST(ElementwiseTest, ScalarsAndSingleElements) {
  OpCase at(0);
  at.Emit(Op::kBinary, {at.Floats({}), at.Floats({})}, BinaryAttributes{});
  ExpectAgreement(at, 1e-6);
  OpCase broadcast(1);
  broadcast.Emit(Op::kBinary, {broadcast.Floats({}), broadcast.Floats({7, 5})},
                 BinaryAttributes{BinaryFunction::kMultiply});
  ExpectAgreement(broadcast, 1e-6);
}

// Rows whose length a pack of elements divides, and other rows.
TEST(ElementwiseTest, EveryWayOfBroadcasting) {
  for (const int64_t width : {1, 3, 4, 8, 12, 16}) {
    for (const Shape& small :
         {Shape{width}, Shape{5, 1}, Shape{3, 1, width}, Shape{3, 5, 1},
          Shape{1, 5, width}, Shape{3, 1, 1}}) {
      for (const DType dtype :
           {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
        OpCase at(static_cast<uint32_t>(width));
        const ValueId a = at.CoarseFloats({3, 5, width});
        const ValueId b = at.CoarseFloats(small);
        at.Emit(Op::kBinary, {a, b}, BinaryAttributes{});
        ASSERT_TRUE(ChangeFloats(at, dtype));
        ExpectAgreement(at, 0);
      }
    }
  }
}

// Computes (a < b) as a number, times c: bool inside and outside, two results.
TEST(ElementwiseTest, FusedStepsOfSeveralTypes) {
  for (const DType inner : {DType::kFloat32, DType::kInt32}) {
    OpCase at(2);
    const Shape shape{6, 20};
    const ValueId a = at.CoarseFloats({20});
    const ValueId b = at.CoarseFloats(shape);
    const ValueId c = at.Integers({6, 1}, inner, -5, 5);
    FusedAttributes fused;
    fused.shape = shape;
    fused.steps = {
        MakeFusedStep(Op::kBinary, BinaryAttributes{BinaryFunction::kLess},
                      {0, 1}),
        MakeFusedStep(Op::kCast, CastAttributes{inner}, {3}),
        MakeFusedStep(Op::kBinary, BinaryAttributes{BinaryFunction::kMultiply},
                      {4, 2})};
    fused.results = {3, 5};
    at.Emit(Op::kFused, {a, b, c}, fused);
    ExpectAgreement(at, 0);
  }
}

}  // namespace
}  // namespace gpupool::engine::testing
