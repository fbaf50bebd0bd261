#include "engine/passes/formats/widen_halves.h"

#include <gmock/gmock.h>

#include "tests/engine/passes/pass_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;

class WidenHalvesTest : public testing::PassTest {
 protected:
  static constexpr DType kHalf = DType::kFloat16;

  ValueId HalfInput(const std::string& name) {
    return *builder_.Input(name, {kHalf, {2, 2}});
  }
  ValueId HalfWeight(const std::string& name, MemoryClass memory_class) {
    return *builder_.Persistent(name, {kHalf, {2, 2}}, memory_class);
  }
  ValueId Cast(ValueId x, DType dtype) {
    return Emit(Op::kCast, {x}, CastAttributes{dtype});
  }
  ValueId Abs(ValueId x) {
    return Emit(Op::kUnary, {x}, UnaryAttributes{UnaryFunction::kAbs});
  }
  // Widens the graph and declares `result` as its output.
  void Widen(const WidenOptions& options, ValueId result) {
    const auto now = WidenHalves(options, graph_);
    ASSERT_TRUE(now.ok()) << now.status();
    result_ = (*now)[static_cast<size_t>(result.index)];
    graph_.AddOutput("y", result_);
    ASSERT_TRUE(Verify(graph_).ok()) << Verify(graph_) << Print(graph_);
  }
  DType TypeOf(ValueId id) const { return graph_.value(id).dtype; }

  ValueId result_;
};

TEST_F(WidenHalvesTest, InputsAreCastOnceAndWeightsAreFloat32) {
  const ValueId x = HalfInput("x");
  const ValueId w = HalfWeight("w", MemoryClass::kWeight);
  const ValueId a = Emit(Op::kMatMul, {x, w}, MatMulAttributes{});
  Widen({}, Emit(Op::kAdd, {a, x}));
  EXPECT_THAT(Ops(), ElementsAre("cast", "matmul", "add"));
  EXPECT_EQ(TypeOf(x), kHalf);
  EXPECT_EQ(TypeOf(w), DType::kFloat32);
  EXPECT_EQ(TypeOf(result_), DType::kFloat32);
}

TEST_F(WidenHalvesTest, InputsBecomeFloat32OnRequest) {
  const ValueId x = HalfInput("x");
  Widen({.inputs = true}, Abs(x));
  EXPECT_THAT(Ops(), ElementsAre("unary"));
  EXPECT_EQ(TypeOf(x), DType::kFloat32);
}

TEST_F(WidenHalvesTest, ConstantsKeepTheirNumbers) {
  const ValueId c = builder_.Constant({kHalf, {2, 2}}, {0.5, 1, 2, -65504});
  Widen({}, Emit(Op::kAdd, {HalfInput("x"), c}));
  EXPECT_EQ(TypeOf(c), DType::kFloat32);
  EXPECT_THAT(graph_.value(c).constant, ElementsAre(0.5, 1, 2, -65504));
}

// A converter puts casts around nodes that it leaves in float32.
TEST_F(WidenHalvesTest, CastsAroundFloat32NodesVanish) {
  const ValueId a = Abs(Cast(HalfInput("x"), DType::kFloat32));
  const ValueId b = Abs(Cast(a, kHalf));
  Widen({}, Abs(Cast(b, DType::kFloat32)));
  EXPECT_THAT(Ops(), ElementsAre("cast", "unary", "unary", "unary"));
}

TEST_F(WidenHalvesTest, AResultMayBeTheOperandOfACastThatVanished) {
  const ValueId a = Abs(Input("x", {2, 2}));
  Widen({}, Cast(a, kHalf));
  EXPECT_EQ(result_, a);
}

TEST_F(WidenHalvesTest, RoundingsStayUnlessTheyAreInTheWay) {
  const ValueId rounded = Cast(Input("x", {2, 2}), kHalf);
  const ValueId y = Abs(Cast(rounded, DType::kFloat32));
  Graph copy = graph_;
  Widen({}, y);
  EXPECT_THAT(Ops(), ElementsAre("cast", "cast", "unary"));
  EXPECT_EQ(TypeOf(rounded), kHalf);
  graph_ = copy;
  Widen({.roundings = true}, y);
  EXPECT_THAT(Ops(), ElementsAre("unary"));
}

TEST_F(WidenHalvesTest, StateThatOnlyCastsReadStays) {
  const ValueId cast = HalfWeight("codes", MemoryClass::kState);
  const ValueId read = HalfWeight("table", MemoryClass::kState);
  const ValueId a = Cast(cast, DType::kFloat32);
  Widen({}, Emit(Op::kAdd, {a, Cast(Abs(read), DType::kFloat32)}));
  EXPECT_EQ(TypeOf(cast), kHalf);
  EXPECT_EQ(TypeOf(read), DType::kFloat32);
}

TEST_F(WidenHalvesTest, UpdatedStateIsWidenedWithItsUpdate) {
  const ValueId mean = HalfWeight("mean", MemoryClass::kState);
  const ValueId x = HalfInput("x");
  const ValueId next = Emit(Op::kAdd, {mean, x});
  ASSERT_TRUE(builder_.Update(next, mean).ok());
  Widen({}, Abs(x));
  EXPECT_EQ(TypeOf(mean), DType::kFloat32);
  EXPECT_EQ(TypeOf(next), DType::kFloat32);
}

TEST_F(WidenHalvesTest, OtherGraphsAreLeftAlone) {
  const ValueId y = Abs(Cast(Input("x", {2, 2}), DType::kFloat64));
  const std::string before = Print(graph_);
  const auto now = WidenHalves({.inputs = true, .roundings = true}, graph_);
  ASSERT_TRUE(now.ok());
  EXPECT_EQ((*now)[static_cast<size_t>(y.index)], y);
  EXPECT_EQ(Print(graph_), before);
}

}  // namespace
}  // namespace gpupool::engine
