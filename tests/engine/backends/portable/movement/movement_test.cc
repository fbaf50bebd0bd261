// Cases that the random cases of all back ends do not reach: transpositions by
// blocks, every width of words, padding of odd ranks.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "engine/backends/portable/movement/copy_plan.h"
#include "tests/engine/backends/portable/compare.h"

namespace gpupool::engine::testing {
namespace {

constexpr DType kWidths[] = {DType::kInt8, DType::kFloat16, DType::kFloat32,
                             DType::kInt64};

TEST(MovementTest, TranspositionsOfEveryWidth) {
  for (const DType dtype : kWidths) {
    for (const Shape& shape : {Shape{16, 24}, Shape{17, 8}, Shape{5, 7}}) {
      OpCase at(0);
      at.Emit(Op::kTranspose, {at.Integers(shape, dtype, 0, 100)},
              TransposeAttributes{{1, 0}});
      ExpectAgreement(at, 0);
      OpCase batch(1);
      batch.Emit(Op::kTranspose,
                 {batch.Integers({3, shape[0], 2, shape[1]}, dtype, 0, 100)},
                 TransposeAttributes{{0, 2, 3, 1}});
      ExpectAgreement(batch, 0);
    }
  }
}

TEST(MovementTest, BlocksAreUsedWhereBothSidesHaveLines) {
  // [64, 32] to [32, 64], 4-byte elements.
  const LoopNest transposed{{32, 64}, {{1, 32}, {64, 1}}};
  const portable::CopyPlan blocks = portable::PlanCopy(transposed, 0, 0, 4);
  EXPECT_TRUE(blocks.transpose);
  EXPECT_EQ(blocks.count, 32 * 64 / 16);
  EXPECT_FALSE(portable::PlanCopy(transposed, 2, 0, 4).transpose);
  EXPECT_FALSE(
      portable::PlanCopy({{32, 63}, {{1, 32}, {63, 1}}}, 0, 0, 4).transpose);
}

TEST(MovementTest, WordsAreAsWideAsTheStridesAllow) {
  const auto bytes = [](LoopNest loops, int64_t from, uint64_t element) {
    return portable::PlanCopy(std::move(loops), from, 0, element).word_bytes;
  };
  EXPECT_EQ(bytes({{64}, {{1}, {1}}}, 0, 1), 16);
  EXPECT_EQ(bytes({{64}, {{1}, {1}}}, 2, 4), 8);
  EXPECT_EQ(bytes({{3, 6}, {{8, 1}, {6, 1}}}, 0, 4), 8);
  EXPECT_EQ(bytes({{64}, {{2}, {1}}}, 0, 4), 4);
}

TEST(MovementTest, SlicesAndConcatsOfEveryWidth) {
  for (const DType dtype : kWidths) {
    for (const int64_t start : {0, 1, 4}) {
      OpCase slice(0);
      slice.Emit(Op::kSlice, {slice.Integers({3, 32}, dtype, 0, 100)},
                 SliceAttributes{{0, start}, {1, 1}, {3, 16}});
      ExpectAgreement(slice, 0);
      OpCase concat(1);
      const ValueId a = concat.Integers({3, 16}, dtype, 0, 100);
      const ValueId b = concat.Integers({3, start + 1}, dtype, 0, 100);
      concat.Emit(Op::kConcat, {a, b, a}, AxisAttributes{1});
      ExpectAgreement(concat, 0);
    }
  }
}

TEST(MovementTest, PaddingOfOneCellAndItsGradient) {
  for (const auto mode : {PadMode::kConstant, PadMode::kEdge}) {
    const PadAttributes pad{{2, 0, 1}, {3, 0, 0}, mode, -1.5};
    OpCase at(0);
    at.Emit(Op::kPad, {at.CoarseFloats({1, 3, 2})}, pad);
    ExpectAgreement(at, 0);
    OpCase grad(1);
    grad.Emit(Op::kPadGrad, {grad.CoarseFloats({6, 3, 3})}, pad);
    ExpectAgreement(grad, 0);
  }
}

TEST(MovementTest, FillsOfOddCounts) {
  for (const DType dtype : kWidths) {
    for (const int64_t count : {1, 2, 3, 12, 31}) {
      OpCase at(0);
      at.Emit(Op::kPad, {at.Integers({count}, dtype, 1, 9)},
              PadAttributes{{0}, {1}, PadMode::kConstant, 7});
      ExpectAgreement(at, 0);
    }
  }
}

}  // namespace
}  // namespace gpupool::engine::testing
