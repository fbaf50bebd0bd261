#include "engine/passes/formats/narrow_weights.h"

#include <gmock/gmock.h>

#include "engine/backends/reference/interpreter.h"
#include "engine/passes/formats/autocast.h"
#include "engine/tensor/convert.h"
#include "tests/engine/passes/pass_testing.h"
#include "tests/engine/testing/graph_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

constexpr DType kNarrow = DType::kBFloat16;

class NarrowWeightsTest : public testing::PassTest {
 protected:
  ValueId Product(ValueId x, ValueId weight) {
    return Emit(Op::kMatMul, {x, weight}, MatMulAttributes{});
  }
  ValueId Transposed(ValueId x) {
    return Emit(Op::kTranspose, {x}, TransposeAttributes{{1, 0}});
  }
  static absl::Status ToBfloat(Graph& graph) {
    return Autocast(graph, kNarrow);
  }
  absl::flat_hash_set<std::string> Found() {
    return FindNarrowWeights(graph_, kNarrow);
  }
  void Narrow(const absl::flat_hash_set<std::string>& names) {
    const absl::Status status = NarrowWeights(graph_, kNarrow, names);
    ASSERT_TRUE(status.ok()) << status;
    graph_.Compact();
    ASSERT_TRUE(Verify(graph_).ok()) << Verify(graph_) << Print(graph_);
  }
  DType TypeOf(const std::string& name) {
    return graph_.FindValue(name)->dtype;
  }
  // Returns the outputs for weights that both types can hold, because the
  // interpreter's casts do not round.
  reference::NamedNumbers Outputs() {
    reference::NamedNumbers state;
    for (auto& [name, numbers] : testing::RandomPersistents(graph_, 5)) {
      for (const double x : numbers) {
        state[name].push_back(RoundToDType(kNarrow, x));
      }
    }
    auto outputs =
        reference::Run(graph_, testing::RandomInputs(graph_, 6), state);
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    return outputs.ok() ? *outputs : reference::NamedNumbers();
  }
};

TEST_F(NarrowWeightsTest, WeightsOfProductsAreStoredAsTheyAreRead) {
  ValueId x = Product(Input("x", {4, 8}), Weight("w1", {8, 8}));
  x = Emit(Op::kAdd, {x, Weight("residual", {4, 8})});
  graph_.AddOutput("y", Product(x, Weight("w2", {8, 2})));
  Run(ToBfloat);
  const auto wanted = Outputs();
  EXPECT_THAT(Found(), UnorderedElementsAre("w1", "w2", "residual"));
  Narrow(Found());
  EXPECT_EQ(TypeOf("w1"), kNarrow);
  EXPECT_THAT(Ops(), ElementsAre("cast", "matmul", "add", "matmul", "cast"));
  EXPECT_EQ(Outputs(), wanted);
}

TEST_F(NarrowWeightsTest, MovementBeforeTheCastIsInNobodysWay) {
  const ValueId w =
      Emit(Op::kReshape, {Weight("w", {64})}, ShapeAttributes{Shape{8, 8}});
  const ValueId x = Input("x", {4, 8});
  graph_.AddOutput("y", Product(Product(x, Transposed(w)), w));
  Run(ToBfloat);
  const auto wanted = Outputs();
  EXPECT_THAT(Found(), UnorderedElementsAre("w"));
  Narrow(Found());
  EXPECT_EQ(TypeOf("w"), kNarrow);
  EXPECT_EQ(Outputs(), wanted);
}

TEST_F(NarrowWeightsTest, WhatIsReadInFloat32StaysSo) {
  const ValueId w = Weight("w", {8, 8});
  const ValueId unread = Weight("unread", {8});
  ASSERT_TRUE(unread.valid());
  const ValueId given = Weight("given", {8, 8});
  const ValueId wide =
      Emit(Op::kUnary, {w}, UnaryAttributes{UnaryFunction::kExp});
  graph_.AddOutput("y", Product(Input("x", {4, 8}), w));
  graph_.AddOutput("z", Product(Input("v", {4, 8}), given));
  graph_.AddOutput("wide", wide);
  graph_.AddOutput("given", given);
  Run(ToBfloat);
  EXPECT_TRUE(Found().empty());
}

TEST_F(NarrowWeightsTest, AProgramThatWantsFloat32TakesWhatIsStored) {
  const ValueId w = Weight("w", {8, 8});
  graph_.AddOutput("y", Product(Input("x", {4, 8}), w));
  graph_.AddOutput("wide",
                   Emit(Op::kUnary, {w}, UnaryAttributes{UnaryFunction::kExp}));
  Run(ToBfloat);
  const auto wanted = Outputs();
  Narrow({"w", "another"});
  EXPECT_EQ(TypeOf("w"), kNarrow);
  EXPECT_EQ(Outputs(), wanted);
}

}  // namespace
}  // namespace gpupool::engine
