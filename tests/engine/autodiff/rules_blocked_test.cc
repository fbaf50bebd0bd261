#include <gmock/gmock.h>

#include "tests/engine/autodiff/gradient_fixture.h"

namespace gpupool::engine {
namespace {

class BlockedRuleTest : public GradientTest {
 protected:
  ValueId Bytes(const Shape& shape, std::vector<double> numbers) {
    return builder_.Constant({DType::kUint8, shape}, std::move(numbers));
  }
  ValueId Codes() {
    return Bytes({2, 3, 2}, {0x5a, 0xf0, 0x33, 0x81, 0x07, 0x9c, 0xe2, 0x4b,
                             0xd6, 0x18, 0xa5, 0x7f});
  }
};

TEST_F(BlockedRuleTest, FourBitsWithoutZeros) {
  Check(Emit(Op::kBlockedMatMul,
             {Weight("a", {2, 12}), Codes(), Weight("s", {2, 3})},
             BlockedMatMulAttributes{4, false}));
}

// The second byte of a column has one zero point.
TEST_F(BlockedRuleTest, FourBitsWithPackedZeros) {
  Check(Emit(Op::kBlockedMatMul,
             {Weight("a", {2, 12}), Codes(), Weight("s", {2, 3}),
              Bytes({2, 2}, {0x95, 0x03, 0x7a, 0x0f})},
             BlockedMatMulAttributes{4, true}));
}

TEST_F(BlockedRuleTest, EightBitsWithZerosThatAreNumbers) {
  Check(Emit(Op::kBlockedMatMul,
             {Weight("a", {2, 6}),
              Bytes({2, 3, 2}, {3, 0, 7, 2, 9, 1, 4, 4, 0, 8, 5, 6}),
              Weight("s", {2, 3}), Weight("z", {2, 3})},
             BlockedMatMulAttributes{8, true}));
}

}  // namespace
}  // namespace gpupool::engine
