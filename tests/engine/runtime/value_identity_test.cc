#include "engine/runtime/value_identity.h"

#include <gtest/gtest.h>

#include "engine/graph/builder.h"

namespace gpupool::engine {
namespace {

struct Folded {
  Graph graph;
  ValueIds outputs;

  explicit Folded(double epsilon, int64_t batch) {
    GraphBuilder builder(&graph);
    (void)builder.Input("x", {DType::kFloat32, {batch, 3}});
    std::vector<ValueId> inputs = {*builder.Persistent(
        "w", {DType::kFloat32, {4, 3}}, MemoryClass::kWeight)};
    for (const char* name : {"gamma", "beta", "mean", "variance"}) {
      inputs.push_back(*builder.Persistent(name, {DType::kFloat32, {4}},
                                           MemoryClass::kState));
    }
    builder.SetStage(Stage::kLoad);
    outputs =
        *builder.Emit(Op::kFoldBatchNorm, inputs, NormAttributes{epsilon});
  }
  std::string Of(ValueId id) const { return ValueIdentities(graph).of(id); }
};

TEST(ValueIdentityTest, PersistentValuesAreTheirNames) {
  const Folded folded(1e-5, 1);
  EXPECT_EQ(folded.Of(folded.graph.FindValue("w")->id), "w");
}

TEST(ValueIdentityTest, DerivedValuesAgreeBetweenBatchesOfOneModel) {
  const Folded one(1e-5, 1), many(1e-5, 32);
  EXPECT_FALSE(one.Of(one.outputs[0]).empty());
  EXPECT_EQ(one.Of(one.outputs[0]), many.Of(many.outputs[0]));
  EXPECT_NE(one.Of(one.outputs[0]), one.Of(one.outputs[1]));
}

TEST(ValueIdentityTest, AttributesTellDerivedValuesApart) {
  const Folded a(1e-5, 1), b(1e-3, 1);
  EXPECT_NE(a.Of(a.outputs[0]), b.Of(b.outputs[0]));
}

TEST(ValueIdentityTest, InputsHaveNone) {
  const Folded folded(1e-5, 1);
  EXPECT_EQ(folded.Of(folded.graph.FindValue("x")->id), "");
}

TEST(ValueIdentityTest, ConstantsAreTheirNumbers) {
  Graph graph;
  GraphBuilder builder(&graph);
  const TensorType pair{DType::kFloat32, {2}};
  const ValueId a = builder.Constant(pair, {1, 2});
  const ValueId b = builder.Constant(pair, {1, 2});
  const ValueId c = builder.Constant(pair, {1, 3});
  const ValueIdentities identities(graph);
  EXPECT_EQ(identities.of(a), identities.of(b));
  EXPECT_NE(identities.of(a), identities.of(c));
}

TEST(ValueIdentityTest, LongChainsStayShort) {
  Graph graph;
  GraphBuilder builder(&graph);
  builder.SetStage(Stage::kLoad);
  ValueId y =
      *builder.Persistent("w", {DType::kFloat32, {2}}, MemoryClass::kWeight);
  for (int i = 0; i < 100; ++i) y = *builder.EmitOne(Op::kAdd, {y, y});
  EXPECT_LT(ValueIdentities(graph).of(y).size(), 1000u);
}

}  // namespace
}  // namespace gpupool::engine
