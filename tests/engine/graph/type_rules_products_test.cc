#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "tests/engine/graph/type_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

TEST(BatchMatMulTypeTest, LeadingAxesBroadcast) {
  const BatchMatMulAttributes plain;
  EXPECT_EQ(Only(Op::kBatchMatMul, plain, {F({6, 1, 2, 3}), F({5, 3, 4})}),
            F({6, 5, 2, 4}));
  EXPECT_EQ(Only(Op::kBatchMatMul, plain, {F({2, 3}), F({3, 4})}), F({2, 4}));
  EXPECT_EQ(Only(Op::kBatchMatMul, BatchMatMulAttributes{true, true, 2},
                 {F({7, 3, 2}), F({4, 3})}),
            F({7, 2, 4}));
  EXPECT_EQ(Only(Op::kBatchMatMul, plain, {F(Empty({0, 2, 3})), F({3, 4})}),
            F(Empty({0, 2, 4})));
  EXPECT_EQ(Only(Op::kBatchMatMul, plain, {I64({2, 3}), I64({3, 4})}),
            I64({2, 4}));
}

TEST(BatchMatMulTypeTest, RefusesWhatDoesNotFit) {
  const BatchMatMulAttributes plain;
  EXPECT_THAT(Error(Op::kBatchMatMul, plain, {F({2, 3}), F({4, 5})}),
              HasSubstr("inner dimensions"));
  EXPECT_THAT(Error(Op::kBatchMatMul, plain, {F({2, 2, 3}), F({3, 3, 5})}),
              HasSubstr("broadcast"));
  EXPECT_THAT(Error(Op::kBatchMatMul, plain, {F({3}), F({3, 5})}),
              HasSubstr("two matrices"));
  EXPECT_THAT(Error(Op::kBatchMatMul, plain, {F({2, 3}), I64({3, 5})}),
              HasSubstr("one type"));
  BatchMatMulAttributes scaled{.scale = std::nan("")};
  EXPECT_THAT(Error(Op::kBatchMatMul, scaled, {F({2, 3}), F({3, 5})}),
              HasSubstr("scale"));
  scaled.scale = 0.5;
  EXPECT_THAT(Error(Op::kBatchMatMul, scaled, {I64({2, 3}), I64({3, 5})}),
              HasSubstr("integers"));
}

TensorType U8(const Shape& shape) { return {DType::kUint8, shape}; }

TEST(BlockedMatMulTypeTest, CodesGiveTheColumns) {
  EXPECT_EQ(Only(Op::kBlockedMatMul, BlockedMatMulAttributes{4, false},
                 {F({3, 64}), U8({7, 2, 16}), F({7, 2})}),
            F({3, 7}));
  const BlockedMatMulAttributes zeros{4, true};
  for (const TensorType& type : {F({7, 3}), U8({7, 2})}) {
    EXPECT_EQ(Only(Op::kBlockedMatMul, zeros,
                   {F({3, 48}), U8({7, 3, 8}), F({7, 3}), type}),
              F({3, 7}));
  }
}

TEST(BlockedMatMulTypeTest, RefusesWhatDoesNotFit) {
  const BlockedMatMulAttributes plain{8, false};
  const TensorTypes good{F({3, 32}), U8({7, 2, 16}), F({7, 2})};
  EXPECT_EQ(Only(Op::kBlockedMatMul, plain, good), F({3, 7}));
  EXPECT_THAT(
      Error(Op::kBlockedMatMul, {BlockedMatMulAttributes{3, false}}, good),
      HasSubstr("must have 4 or 8"));
  EXPECT_THAT(
      Error(Op::kBlockedMatMul, plain, {good[0], F({7, 2, 16}), good[2]}),
      HasSubstr("codes of uint8"));
  EXPECT_THAT(Error(Op::kBlockedMatMul, plain, {F({3, 31}), good[1], good[2]}),
              HasSubstr("must have the 32 columns"));
  EXPECT_THAT(Error(Op::kBlockedMatMul, plain, {good[0], good[1], F({7, 3})}),
              HasSubstr("need scales [7, 2], not [7, 3]"));
  EXPECT_THAT(
      Error(Op::kBlockedMatMul, plain, {good[0], good[1], good[2], F({7, 2})}),
      HasSubstr("no zero points"));
  EXPECT_THAT(Error(Op::kBlockedMatMul, {BlockedMatMulAttributes{8, true}},
                    {good[0], good[1], good[2], U8({7, 3})}),
              HasSubstr("packed in uint8 [7, 2]"));
}

class AttentionTypeTest : public ::testing::Test {
 protected:
  const TensorType q_ = F({2, 3, 4, 5});
  const TensorType k_ = F({2, 3, 6, 5});
  const TensorType v_ = F({2, 3, 6, 7});
};

TEST_F(AttentionTypeTest, LseIsThereWhenAskedFor) {
  EXPECT_EQ(Types(Op::kAttention, AttentionAttributes{}, {q_, k_, v_}),
            (TensorTypes{F({2, 3, 4, 7})}));
  EXPECT_EQ(Types(Op::kAttention, AttentionAttributes{.with_lse = true},
                  {q_, k_, v_}),
            (TensorTypes{F({2, 3, 4, 7}), F({2, 3, 4})}));
}

TEST_F(AttentionTypeTest, TheMaskBroadcastsToTheScores) {
  const AttentionAttributes plain;
  for (const Shape& mask : {Shape{2, 3, 4, 6}, Shape{1, 1, 4, 6}, Shape{4, 6},
                            Shape{2, 1, 1, 6}, Shape{}}) {
    EXPECT_EQ(Only(Op::kAttention, plain, {q_, k_, v_, F(mask)}),
              F({2, 3, 4, 7}));
  }
  for (const Shape& mask : {Shape{5, 6}, Shape{1, 2, 3, 4, 6}}) {
    EXPECT_THAT(Error(Op::kAttention, plain, {q_, k_, v_, F(mask)}),
                HasSubstr("does not broadcast"));
  }
  EXPECT_THAT(
      Error(Op::kAttention, plain, {q_, k_, v_, {DType::kBool, {4, 6}}}),
      HasSubstr("bool"));
}

TEST_F(AttentionTypeTest, OperandsAgree) {
  const AttentionAttributes plain;
  EXPECT_THAT(Error(Op::kAttention, plain, {q_, F({2, 3, 6, 4}), v_}),
              HasSubstr("must agree"));
  EXPECT_THAT(Error(Op::kAttention, plain, {q_, k_, F({2, 3, 5, 7})}),
              HasSubstr("must agree"));
  EXPECT_THAT(Error(Op::kAttention, plain, {q_, k_, F({2, 1, 6, 7})}),
              HasSubstr("must agree"));
  EXPECT_THAT(Error(Op::kAttention, plain, {F({3, 4, 5}), k_, v_}),
              HasSubstr("4 dimensions"));
  EXPECT_THAT(Error(Op::kAttention,
                    AttentionAttributes{
                        .scale = std::numeric_limits<double>::infinity()},
                    {q_, k_, v_}),
              HasSubstr("scale"));
}

TEST_F(AttentionTypeTest, TheLogarithmHasNeverLessThan32Bits) {
  const TensorType half{DType::kBFloat16, {2, 3, 4, 8}};
  const TensorType lse{DType::kFloat32, {2, 3, 4}};
  EXPECT_EQ(Types(Op::kAttention, AttentionAttributes{.with_lse = true},
                  {half, half, half}),
            (TensorTypes{half, lse}));
  EXPECT_EQ(Types(Op::kAttentionGrad, AttentionAttributes{},
                  {half, half, half, half, half, lse}),
            (TensorTypes{half, half, half}));
}

TEST_F(AttentionTypeTest, GradientsAreThoseOfTheThreeOperands) {
  const TensorType y = F({2, 3, 4, 7});
  const TensorType lse = F({2, 3, 4});
  const AttentionAttributes plain;
  EXPECT_EQ(Types(Op::kAttentionGrad, plain, {y, q_, k_, v_, y, lse}),
            (TensorTypes{q_, k_, v_}));
  EXPECT_EQ(
      Types(Op::kAttentionGrad, plain, {y, q_, k_, v_, y, lse, F({4, 6})}),
      (TensorTypes{q_, k_, v_}));
  EXPECT_THAT(Error(Op::kAttentionGrad, plain, {q_, q_, k_, v_, y, lse}),
              HasSubstr("dy"));
  EXPECT_THAT(Error(Op::kAttentionGrad, plain, {y, q_, k_, v_, y, y}),
              HasSubstr("lse"));
}

TEST(LrnTypeTest, ChecksTheWindow) {
  EXPECT_EQ(Only(Op::kLrn, LrnAttributes{}, {F({2, 3, 4})}), F({2, 3, 4}));
  EXPECT_EQ(Only(Op::kLrnGrad, LrnAttributes{}, {F({2, 3}), F({2, 3})}),
            F({2, 3}));
  EXPECT_THAT(Error(Op::kLrn, LrnAttributes{}, {F({2})}), HasSubstr("channel"));
  for (int64_t size : {int64_t{0}, std::numeric_limits<int64_t>::max()}) {
    EXPECT_THAT(Error(Op::kLrn, LrnAttributes{.size = size}, {F({2, 3})}),
                HasSubstr("size"));
  }
  EXPECT_THAT(
      Error(Op::kLrn, LrnAttributes{.alpha = std::nan("")}, {F({2, 3})}),
      HasSubstr("finite"));
  EXPECT_THAT(Error(Op::kLrnGrad, LrnAttributes{}, {F({2, 4}), F({2, 3})}),
              HasSubstr("dy"));
}

}  // namespace
}  // namespace gpupool::engine
