#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "tests/engine/backends/reference/one_op.h"

namespace gpupool::engine::reference {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Operand& Cube() {
  static const Operand cube =
      F({2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  return cube;
}

Numbers Reduce(ReduceFunction function, std::vector<int> axes,
               const Operand& x) {
  return RunOp(Op::kReduce, ReduceAttributes{function, std::move(axes)},
               {x})[0];
}

TEST(ReduceKernelTest, FoldsTheAxes) {
  EXPECT_THAT(Reduce(ReduceFunction::kSum, {1}, Cube()),
              ElementsAre(9, 12, 27, 30));
  EXPECT_THAT(Reduce(ReduceFunction::kSum, {0, 2}, Cube()),
              ElementsAre(18, 26, 34));
  EXPECT_THAT(Reduce(ReduceFunction::kMean, {0, 1, 2}, Cube()),
              ElementsAre(6.5));
  EXPECT_THAT(Reduce(ReduceFunction::kProduct, {2}, Cube()),
              ElementsAre(2, 12, 30, 56, 90, 132));
  EXPECT_THAT(Reduce(ReduceFunction::kMax, {1}, Cube()),
              ElementsAre(5, 6, 11, 12));
  EXPECT_THAT(Reduce(ReduceFunction::kMin, {0}, Cube()),
              ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(ReduceKernelTest, IntegersAndBool) {
  EXPECT_THAT(Reduce(ReduceFunction::kMean, {0}, I({2}, {-4, -3})),
              ElementsAre(-3));
  EXPECT_THAT(
      Reduce(ReduceFunction::kMin, {0}, {{DType::kBool, {3}}, {1, 0, 1}}),
      ElementsAre(0));
}

TEST(ReduceKernelTest, ExtremesKeepNan) {
  for (const auto f : {ReduceFunction::kMax, ReduceFunction::kMin}) {
    EXPECT_TRUE(std::isnan(Reduce(f, {0}, F({3}, {1, NAN, 2}))[0]));
  }
}

TEST(ReduceKernelTest, NothingGivesTheNeutralNumber) {
  const Shape empty = *Shape::CreateMaybeEmpty({0});
  EXPECT_THAT(Reduce(ReduceFunction::kSum, {0}, F(empty, {})), ElementsAre(0));
  EXPECT_THAT(Reduce(ReduceFunction::kProduct, {0}, F(empty, {})),
              ElementsAre(1));
  EXPECT_THAT(Reduce(ReduceFunction::kMax, {0}, F(empty, {})),
              ElementsAre(-HUGE_VAL));
  EXPECT_TRUE(std::isnan(Reduce(ReduceFunction::kMean, {0}, F(empty, {}))[0]));
  EXPECT_THAT(Reduce(ReduceFunction::kMin, {0}, {{DType::kInt8, empty}, {}}),
              ElementsAre(127));
  EXPECT_THAT(Reduce(ReduceFunction::kMax, {0}, {{DType::kInt32, empty}, {}}),
              ElementsAre(std::numeric_limits<int32_t>::min()));
  EXPECT_THAT(Reduce(ReduceFunction::kSum, {1},
                     F(*Shape::CreateMaybeEmpty({0, 2}), {})),
              IsEmpty());
}

Numbers ArgReduce(const ArgReduceAttributes& reduce, const Operand& x) {
  return RunOp(Op::kArgReduce, reduce, {x})[0];
}

TEST(ArgReduceKernelTest, FirstOrLastOfEquals) {
  const Operand x = F({3, 2}, {1, 5, 4, 2, 4, 2});
  EXPECT_THAT(ArgReduce({.axis = 0}, x), ElementsAre(1, 0));
  EXPECT_THAT(ArgReduce({.axis = 0, .last = true}, x), ElementsAre(2, 0));
  EXPECT_THAT(ArgReduce({.maximum = false, .axis = 0}, x), ElementsAre(0, 1));
  EXPECT_THAT(ArgReduce({.maximum = false, .axis = 0, .last = true}, x),
              ElementsAre(0, 2));
  EXPECT_THAT(ArgReduce({.axis = 1}, x), ElementsAre(1, 0, 0));
}

TEST(ArgReduceKernelTest, NanIsBeyondEveryNumber) {
  const Operand x = F({4}, {1, NAN, 3, NAN});
  for (const bool maximum : {true, false}) {
    EXPECT_THAT(ArgReduce({.maximum = maximum}, x), ElementsAre(1));
    EXPECT_THAT(ArgReduce({.maximum = maximum, .last = true}, x),
                ElementsAre(3));
  }
}

TEST(CumSumKernelTest, AllForms) {
  const Operand x = F({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto sum = [&x](const CumSumAttributes& attributes) {
    return RunOp(Op::kCumSum, attributes, {x})[0];
  };
  EXPECT_THAT(sum({.axis = 1}), ElementsAre(1, 3, 6, 4, 9, 15));
  EXPECT_THAT(sum({.axis = 0}), ElementsAre(1, 2, 3, 5, 7, 9));
  EXPECT_THAT(sum({.axis = 1, .exclusive = true}),
              ElementsAre(0, 1, 3, 0, 4, 9));
  EXPECT_THAT(sum({.axis = 1, .reverse = true}),
              ElementsAre(6, 5, 3, 15, 11, 6));
  EXPECT_THAT(sum({.axis = 1, .exclusive = true, .reverse = true}),
              ElementsAre(5, 3, 0, 11, 6, 0));
}

}  // namespace
}  // namespace gpupool::engine::reference
