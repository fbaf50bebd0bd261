// Cases that the random cases of all back ends do not reach: all functions of
// all types, two stages, nothing to reduce, special numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "tests/engine/backends/portable/compare.h"

namespace gpupool::engine::testing {
namespace {

constexpr ReduceFunction kFunctions[] = {
    ReduceFunction::kSum, ReduceFunction::kMean, ReduceFunction::kMax,
    ReduceFunction::kMin, ReduceFunction::kProduct};

TEST(ReduceTest, EveryFunctionOfEveryInteger) {
  for (const DType dtype :
       {DType::kInt8, DType::kUint8, DType::kInt32, DType::kInt64}) {
    for (const ReduceFunction function : kFunctions) {
      for (const std::vector<int>& axes :
           {std::vector<int>{0}, {1}, {2}, {0, 2}, {0, 1, 2}}) {
        OpCase at(7);
        const int64_t low = dtype == DType::kUint8 ? 0 : -2;
        at.Emit(Op::kReduce, {at.Integers({3, 4, 5}, dtype, low, 2)},
                ReduceAttributes{function, axes, false});
        ExpectAgreement(at, 0);
      }
    }
  }
}

TEST(ReduceTest, ExtremesOfBool) {
  for (const auto function : {ReduceFunction::kMax, ReduceFunction::kMin}) {
    OpCase at(0);
    at.Emit(Op::kReduce, {at.Integers({9, 3}, DType::kBool, 0, 1)},
            ReduceAttributes{function, {1}, true});
    ExpectAgreement(at, 0);
  }
}

// Few results of many numbers take two stages, in rows and in columns.
TEST(ReduceTest, LargeReductionsInTwoStages) {
  for (const ReduceFunction function : kFunctions) {
    if (function == ReduceFunction::kProduct) continue;
    for (const std::vector<int>& axes : {std::vector<int>{0}, {1}, {0, 1}}) {
      OpCase at(1);
      const Shape shape =
          axes == std::vector<int>{0} ? Shape{30000, 3} : Shape{3, 40000};
      at.Emit(Op::kReduce, {at.Floats(shape)},
              ReduceAttributes{function, axes, false});
      ExpectAgreement(at, 1e-6);
    }
  }
}

TEST(ReduceTest, NothingToReduceGivesTheNeutralElement) {
  for (const DType dtype : {DType::kFloat32, DType::kInt32, DType::kFloat16}) {
    for (const ReduceFunction function : kFunctions) {
      if (function == ReduceFunction::kMean) continue;
      OpCase at(0);
      const Shape empty = *Shape::CreateMaybeEmpty({0, 3});
      at.Emit(Op::kReduce, {at.Integers(empty, dtype, 0, 0)},
              ReduceAttributes{function, {0}, false});
      ExpectAgreement(at, 0);
    }
  }
}

TEST(ReduceTest, NanWinsAndInfinitiesStay) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    for (const ReduceFunction function : kFunctions) {
      for (const int axis : {0, 1}) {
        OpCase at(0);
        const ValueId x = at.Integers({4, 3}, dtype, 0, 0);
        at.inputs.begin()->second = {1, NAN, kInfinity,  2, 3, -kInfinity,
                                     5, 6,   -kInfinity, 8, 9, 1};
        at.Emit(Op::kReduce, {x}, ReduceAttributes{function, {axis}, false});
        ExpectAgreement(at, 0);
      }
    }
  }
}

TEST(ReduceTest, PositionsOfExtremesWithTiesAndNan) {
  for (const bool maximum : {true, false}) {
    for (const bool last : {true, false}) {
      for (const int axis : {0, 1}) {
        OpCase at(0);
        const ValueId x = at.Integers({3, 4}, DType::kFloat32, 0, 0);
        at.inputs.begin()->second = {1, 2, 2, NAN, 2, 2, 1, 1, 1, -0.0, 0, 0};
        at.Emit(Op::kArgReduce, {x},
                ArgReduceAttributes{maximum, axis, false, last});
        ExpectAgreement(at, 0);
        OpCase whole(3);
        whole.Emit(Op::kArgReduce,
                   {whole.Integers({5, 6}, DType::kInt8, -2, 2)},
                   ArgReduceAttributes{maximum, axis, true, last});
        ExpectAgreement(whole, 0);
      }
    }
  }
}

TEST(ReduceTest, GlobalNormOfManyValues) {
  OpCase at(1);
  std::vector<ValueId> gradients;
  for (int i = 0; i < 300; ++i) {
    gradients.push_back(at.Floats({at.Pick(1, 40), at.Pick(1, 40)}));
  }
  gradients.push_back(at.Floats({70000}));  // more than one piece
  at.Emit(Op::kGlobalNorm, gradients);
  ExpectAgreement(at, 1e-6);
}

}  // namespace
}  // namespace gpupool::engine::testing
