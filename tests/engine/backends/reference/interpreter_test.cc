#include "engine/backends/reference/interpreter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/graph/builder.h"

namespace gpupool::engine::reference {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const TensorType kType{DType::kFloat32, {2}};

class InterpreterTest : public ::testing::Test {
 protected:
  Graph graph_;
  GraphBuilder builder_{&graph_};
};

TEST_F(InterpreterTest, UpdatesReachThePersistentsAfterTheRun) {
  const ValueId w = *builder_.Persistent("w", kType, MemoryClass::kWeight);
  const ValueId x = *builder_.Input("x", kType);
  const ValueId sum = *builder_.EmitOne(Op::kAdd, {w, x});
  ASSERT_TRUE(builder_.Update(sum, w).ok());
  graph_.AddOutput("old", w);
  NamedNumbers state{{"w", {1, 2}}};
  auto outputs = reference::Run(graph_, {{"x", {10, 20}}}, state);
  ASSERT_TRUE(outputs.ok());
  EXPECT_THAT(state["w"], ElementsAre(11, 22));
  EXPECT_THAT((*outputs)["old"], ElementsAre(1, 2));
}

TEST_F(InterpreterTest, OneNumberFillsAConstant) {
  const ValueId c = builder_.Constant(kType, {3});
  graph_.AddOutput("out", *builder_.EmitOne(Op::kRelu, {c}));
  NamedNumbers none;
  EXPECT_THAT((*reference::Run(graph_, {}, none))["out"], ElementsAre(3, 3));
}

TEST_F(InterpreterTest, MissingAndWrongSizedValuesAreNamed) {
  ASSERT_TRUE(builder_.Input("x", kType).ok());
  NamedNumbers none;
  EXPECT_THAT(reference::Run(graph_, {}, none).status().message(),
              HasSubstr("'x' is missing"));
  EXPECT_THAT(reference::Run(graph_, {{"x", {1}}}, none).status().message(),
              HasSubstr("'x' has 1 numbers"));
}

TEST_F(InterpreterTest, RoundsToTheStoredTypeWhenAsked) {
  const ValueId x = *builder_.Input("x", kType);
  graph_.AddOutput("out", *builder_.EmitOne(Op::kTanh, {x}));
  NamedNumbers none;
  const NamedNumbers inputs{{"x", {0.3, 0.7}}};
  EXPECT_EQ((*reference::Run(graph_, inputs, none))["out"][0], std::tanh(0.3));
  EXPECT_EQ((*reference::Run(graph_, inputs, none,
                             {.round_to_dtype = true}))["out"][0],
            static_cast<float>(std::tanh(0.3)));
}

TEST_F(InterpreterTest, AReaderOfOverwrittenBytesSeesNaN) {
  const ValueId x = *builder_.Input("x", kType);
  const ValueId a = *builder_.EmitOne(Op::kRelu, {x});
  const ValueId b = *builder_.EmitOne(Op::kTanh, {a});
  graph_.mutable_value(b).alias = {AliasKind::kInPlace, a};
  graph_.AddOutput("wrong", *builder_.EmitOne(Op::kAdd, {a, b}));
  NamedNumbers none;
  EXPECT_TRUE(
      std::isnan((*reference::Run(graph_, {{"x", {1, 2}}}, none))["wrong"][0]));
}

}  // namespace
}  // namespace gpupool::engine::reference
