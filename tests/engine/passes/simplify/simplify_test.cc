#include "engine/passes/simplify/simplify.h"

#include <gmock/gmock.h>

#include "tests/engine/passes/pass_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class SimplifyTest : public testing::PassTest {
 protected:
  ValueId Number(double x) { return builder_.Constant(F({}), {x}); }
  ValueId Binary(BinaryFunction function, ValueId a, ValueId b) {
    return Emit(Op::kBinary, {a, b}, BinaryAttributes{function});
  }
  void Finish(ValueId y) {
    graph_.AddOutput("out", y);
    Run(Simplify);
  }
};

TEST_F(SimplifyTest, NeutralNumbersDoNothing) {
  ValueId y = Input("x", {2, 3});
  y = Binary(BinaryFunction::kAdd, y, Number(0));
  y = Binary(BinaryFunction::kMultiply, Number(1), y);
  y = Binary(BinaryFunction::kDivide, y, Number(1));
  y = Binary(BinaryFunction::kSubtract, y, Number(0));
  Finish(Binary(BinaryFunction::kPower, y, Number(1)));
  EXPECT_THAT(Ops(), IsEmpty());
}

TEST_F(SimplifyTest, OneMinusXAndOneOverXStay) {
  const ValueId x = Input("x", {2, 3});
  const ValueId y = Binary(BinaryFunction::kSubtract, Number(0), x);
  Finish(Binary(BinaryFunction::kDivide, Number(1), y));
  EXPECT_THAT(Ops(), ElementsAre("binary", "binary"));
}

TEST_F(SimplifyTest, ANeutralNumberThatBroadcastsStays) {
  const ValueId zeros = builder_.Constant(F({4, 3}), {0});
  Finish(Binary(BinaryFunction::kAdd, Input("x", {3}), zeros));
  EXPECT_THAT(Ops(), ElementsAre("binary"));
}

TEST_F(SimplifyTest, ASquareIsAProductAndAPlainSumAnAdd) {
  const ValueId x = Input("x", {2, 3});
  const ValueId square = Binary(BinaryFunction::kPower, x, Number(2));
  Finish(Binary(BinaryFunction::kAdd, square, x));
  ASSERT_THAT(Ops(), ElementsAre("binary", "add"));
  EXPECT_EQ(graph_.nodes()[0].get<BinaryAttributes>().function,
            BinaryFunction::kMultiply);
  EXPECT_THAT(graph_.nodes()[0].inputs, ElementsAre(x, x));
}

TEST_F(SimplifyTest, ElementwiseNodesBroadcastByThemselves) {
  const ValueId row = Input("row", {3});
  const ValueId wide =
      Emit(Op::kBroadcast, {row}, ShapeAttributes{Shape{2, 3}});
  Finish(Binary(BinaryFunction::kMultiply, Input("x", {2, 3}), wide));
  EXPECT_THAT(Ops(), ElementsAre("binary"));
}

TEST_F(SimplifyTest, ABroadcastThatMakesTheShapeStays) {
  const ValueId row = Input("row", {3});
  const ValueId wide =
      Emit(Op::kBroadcast, {row}, ShapeAttributes{Shape{2, 3}});
  Finish(Binary(BinaryFunction::kMultiply, row, wide));
  EXPECT_THAT(Ops(), ElementsAre("broadcast", "binary"));
}

TEST_F(SimplifyTest, NumbersPerChannelOfAnImageLoseTheirLeadingOne) {
  const ValueId w = Weight("w", {1, 3, 1, 1});
  Finish(Binary(BinaryFunction::kMultiply, Input("x", {2, 3, 4, 4}), w));
  ASSERT_THAT(Ops(), ElementsAre("reshape", "binary"));
  EXPECT_EQ(graph_.value(graph_.nodes()[1].inputs[1]).shape, (Shape{3, 1, 1}));
}

TEST_F(SimplifyTest, ALeadingOneStaysIfOnlyItMakesTheResultFourDimensional) {
  const ValueId w = Weight("w", {1, 3, 1, 1});
  Finish(Binary(BinaryFunction::kMultiply, Input("x", {4}), w));
  ASSERT_THAT(Ops(), ElementsAre("binary"));
  EXPECT_EQ(graph_.value(graph_.nodes()[0].outputs[0]).shape,
            (Shape{1, 3, 1, 4}));
}

TEST_F(SimplifyTest, DoesNotReadAWeightAfterItsUpdate) {
  const ValueId w = Weight("w", {2, 3});
  const ValueId same = Emit(Op::kReshape, {w}, ShapeAttributes{Shape{2, 3}});
  const ValueId next = Emit(Op::kAdd, {w, w});
  ASSERT_TRUE(builder_.Update(next, w).ok());
  Finish(Emit(Op::kRelu, {same}));
  EXPECT_THAT(Ops(), ElementsAre("reshape", "add", "relu"));
}

}  // namespace
}  // namespace gpupool::engine
