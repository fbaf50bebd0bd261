#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "engine/base/philox.h"
#include "tests/engine/backends/reference/one_op.h"

namespace gpupool::engine::reference {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::Pointwise;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

MATCHER(Near, "") {
  return std::abs(std::get<0>(arg) - std::get<1>(arg)) < 1e-12;
}

Operand RandomOperand(const Shape& shape, uint64_t seed) {
  Philox philox(seed);
  Numbers numbers(static_cast<size_t>(shape.elements()));
  for (double& x : numbers) x = 2 * philox.NextDouble() - 1;
  return F(shape, std::move(numbers));
}

Operand Bytes(const Shape& shape, Numbers numbers) {
  return {{DType::kUint8, shape}, std::move(numbers)};
}

// Two columns of two blocks with two codes each.
TEST(BlockedMatMulKernelTest, HalvesOfBytesAreCodesWithTheLowOneFirst) {
  const Operand a = F({1, 4}, {1, 10, 100, 1000});
  const Operand codes = Bytes({2, 2, 1}, {0x21, 0x43, 0x0f, 0xf0});
  const Operand scales = F({2, 2}, {1, 2, 1, 1});
  // Zero points are 8.
  EXPECT_THAT(RunOp(Op::kBlockedMatMul, BlockedMatMulAttributes{4, false},
                    {a, codes, scales})[0],
              ElementsAre(-7 - 60 - 2 * 500 - 2 * 4000, 7 - 80 - 800 + 7000));
  EXPECT_THAT(RunOp(Op::kBlockedMatMul, BlockedMatMulAttributes{4, true},
                    {a, codes, scales, F({2, 2}, {0, 1, 0.5, 15})})[0],
              ElementsAre(1 + 20 + 2 * 200 + 2 * 3000, 14.5 - 5 - 1500));
  EXPECT_THAT(RunOp(Op::kBlockedMatMul, BlockedMatMulAttributes{4, true},
                    {a, codes, scales, Bytes({2, 1}, {0x10, 0xf0})})[0],
              ElementsAre(1 + 20 + 2 * 200 + 2 * 3000, 15 - 1500));
}

TEST(BlockedMatMulKernelTest, CodesOfEightBitsAreWholeBytes) {
  const Operand a = F({2, 2}, {1, 10, 0, 1});
  const Operand codes = Bytes({1, 2, 1}, {130, 7});
  const Operand scales = F({1, 2}, {0.5, 1});
  EXPECT_THAT(RunOp(Op::kBlockedMatMul, BlockedMatMulAttributes{8, false},
                    {a, codes, scales})[0],
              ElementsAre(1 - 1210, -121));
  EXPECT_THAT(RunOp(Op::kBlockedMatMul, BlockedMatMulAttributes{8, true},
                    {a, codes, scales, Bytes({1, 2}, {128, 5})})[0],
              ElementsAre(1 + 20, 2));
}

TEST(BatchMatMulKernelTest, MultipliesWithTranspositionsAndScale) {
  const Operand a = F({2, 2}, {1, 2, 3, 4});
  const Operand b = F({2, 2}, {5, 6, 7, 8});
  EXPECT_THAT(RunOp(Op::kBatchMatMul, BatchMatMulAttributes{}, {a, b})[0],
              ElementsAre(19, 22, 43, 50));
  EXPECT_THAT(
      RunOp(Op::kBatchMatMul, BatchMatMulAttributes{true, false, 2}, {a, b})[0],
      ElementsAre(52, 60, 76, 88));
  EXPECT_THAT(
      RunOp(Op::kBatchMatMul, BatchMatMulAttributes{false, true, 1}, {a, b})[0],
      ElementsAre(17, 23, 39, 53));
}

TEST(BatchMatMulKernelTest, LeadingAxesBroadcast) {
  const Operand a = RandomOperand({3, 1, 2, 4}, 1);
  const Operand b = RandomOperand({5, 4, 3}, 2);
  const Numbers y = RunOp(Op::kBatchMatMul, BatchMatMulAttributes{}, {a, b})[0];
  ASSERT_EQ(y.size(), 90u);
  size_t at = 0;
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 5; ++j) {
      for (size_t m = 0; m < 2; ++m) {
        for (size_t n = 0; n < 3; ++n) {
          double sum = 0;
          for (size_t k = 0; k < 4; ++k) {
            sum += a.numbers[8 * i + 4 * m + k] * b.numbers[12 * j + 3 * k + n];
          }
          EXPECT_NEAR(y[at++], sum, 1e-12);
        }
      }
    }
  }
}

TEST(BatchMatMulKernelTest, AnEmptyInnerAxisGivesZeros) {
  const Operand a{{DType::kFloat32, *Shape::CreateMaybeEmpty({{2, 0}})}, {}};
  const Operand b{{DType::kFloat32, *Shape::CreateMaybeEmpty({{0, 2}})}, {}};
  EXPECT_THAT(RunOp(Op::kBatchMatMul, BatchMatMulAttributes{}, {a, b})[0],
              ElementsAre(0, 0, 0, 0));
}

// Composes two heads of one batch from separate products and a softmax.
class AttentionKernelTest : public ::testing::Test {
 protected:
  // Computes the same with batched products and kSoftmax.
  Numbers Composed(const AttentionAttributes& attention,
                   const Numbers& mask) const {
    Numbers scores =
        RunOp(Op::kBatchMatMul,
              BatchMatMulAttributes{false, true, attention.scale}, {q_, k_})[0];
    for (size_t i = 0; i < scores.size(); ++i) scores[i] += mask[i % 12];
    const Numbers p =
        RunOp(Op::kSoftmax, {}, {F({1, 2, 3, 4}, std::move(scores))})[0];
    return RunOp(Op::kBatchMatMul, BatchMatMulAttributes{},
                 {F({1, 2, 3, 4}, p), v_})[0];
  }

  const Operand q_ = RandomOperand({1, 2, 3, 5}, 3);
  const Operand k_ = RandomOperand({1, 2, 4, 5}, 4);
  const Operand v_ = RandomOperand({1, 2, 4, 2}, 5);
};

TEST_F(AttentionKernelTest, EqualsItsPartsWithAMask) {
  const AttentionAttributes attention{.scale = 0.4};
  const Numbers mask{0, 1, -kInfinity, 2, 0.5, 0, 0, -1, 3, -kInfinity, 0, 1};
  EXPECT_THAT(RunOp(Op::kAttention, attention, {q_, k_, v_})[0],
              Pointwise(Near(), Composed(attention, Numbers(12, 0))));
  EXPECT_THAT(
      RunOp(Op::kAttention, attention, {q_, k_, v_, F({3, 4}, mask)})[0],
      Pointwise(Near(), Composed(attention, mask)));
}

// Masks of the smallest finite number make such scores.
TEST_F(AttentionKernelTest, EqualScoresOfAnySizeHaveEqualWeights) {
  const AttentionAttributes attention{.scale = 0};
  const Numbers mask(12, -1e30);
  EXPECT_THAT(
      RunOp(Op::kAttention, attention, {q_, k_, v_, F({3, 4}, mask)})[0],
      Pointwise(Near(), RunOp(Op::kAttention, attention, {q_, k_, v_})[0]));
}

TEST_F(AttentionKernelTest, CausalQueriesSeeNoLaterKeys) {
  const AttentionAttributes causal{.scale = 0.4, .causal = true};
  // With one key more than queries, query i sees keys 0 .. i + 1.
  Numbers mask(12, 0);
  mask[2] = mask[3] = mask[7] = -kInfinity;
  EXPECT_THAT(RunOp(Op::kAttention, causal, {q_, k_, v_})[0],
              Pointwise(Near(), Composed(causal, mask)));
}

TEST_F(AttentionKernelTest, LseIsTheLogarithmOfTheSum) {
  const auto outputs =
      RunOp(Op::kAttention, AttentionAttributes{.scale = 0, .with_lse = true},
            {q_, k_, v_});
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_THAT(outputs[1], Each(DoubleNear(std::log(4.0), 1e-12)));
}

TEST_F(AttentionKernelTest, AQueryWithoutKeysGivesZeros) {
  const Numbers mask(4, -kInfinity);
  const AttentionAttributes attention{.with_lse = true};
  const auto outputs =
      RunOp(Op::kAttention, attention, {q_, k_, v_, F({4}, mask)});
  EXPECT_THAT(outputs[0], Each(0));
  EXPECT_THAT(outputs[1], Each(-kInfinity));
  const Operand dy = RandomOperand({1, 2, 3, 2}, 6);
  const auto gradients = RunOp(Op::kAttentionGrad, attention,
                               {dy, q_, k_, v_, F({1, 2, 3, 2}, outputs[0]),
                                F({1, 2, 3}, outputs[1]), F({4}, mask)});
  for (const Numbers& gradient : gradients) EXPECT_THAT(gradient, Each(0));
}

TEST_F(AttentionKernelTest, LargeScoresDoNotOverflow) {
  const Operand q = F({1, 1, 1, 1}, {1000});
  const Operand k = F({1, 1, 2, 1}, {1000, -1000});
  const Operand v = F({1, 1, 2, 1}, {3, 4});
  EXPECT_THAT(RunOp(Op::kAttention, AttentionAttributes{}, {q, k, v})[0],
              ElementsAre(3));
}

TEST(LrnKernelTest, DividesByThePowerOfTheWindow) {
  const LrnAttributes lrn{.alpha = 3, .beta = 2, .bias = 1, .size = 3};
  // Windows of squares: 1 + 4, 1 + 4 + 9, 4 + 9.
  EXPECT_THAT(RunOp(Op::kLrn, lrn, {F({1, 3}, {1, 2, 3})})[0],
              Pointwise(Near(), Numbers{1 / 36.0, 2 / 225.0, 3 / 196.0}));
}

TEST(LrnKernelTest, AnEvenWindowReachesFurtherBehind) {
  const LrnAttributes lrn{.alpha = 2, .beta = 1, .bias = 0, .size = 2};
  // Windows of squares: 1 + 4, 4 + 9, 9.
  EXPECT_THAT(RunOp(Op::kLrn, lrn, {F({1, 3}, {1, 2, 3})})[0],
              Pointwise(Near(), Numbers{1 / 5.0, 2 / 13.0, 3 / 9.0}));
}

TEST(LogSoftmaxKernelTest, IsTheLogarithmOfTheSoftmaxAndDoesNotOverflow) {
  const Operand x = F({2, 3}, {1, 2, 3, -4, 0, 5});
  Numbers expected = RunOp(Op::kSoftmax, {}, {x})[0];
  for (double& p : expected) p = std::log(p);
  EXPECT_THAT(RunOp(Op::kLogSoftmax, {}, {x})[0], Pointwise(Near(), expected));
  EXPECT_THAT(RunOp(Op::kLogSoftmax, {}, {F({1, 2}, {1e5, -1e5})})[0],
              ElementsAre(0, -2e5));
}

}  // namespace
}  // namespace gpupool::engine::reference
