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

// 1 + 2^-9 has too many bits for bfloat16, 1 + 2^-12 also for float16.
TEST_F(InterpreterTest, RoundsToSixteenBitsWhenAsked) {
  const TensorType type{DType::kFloat64, {2}};
  const ValueId x = *builder_.Input("x", type);
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    graph_.AddOutput(std::string(DTypeName(dtype)),
                     *builder_.EmitOne(Op::kCast, {x}, CastAttributes{dtype}));
  }
  NamedNumbers none;
  const reference::Numbers numbers{1 + 0x1p-9, 1 + 0x1p-12};
  const auto exact = *reference::Run(graph_, {{"x", numbers}}, none);
  EXPECT_EQ(exact.at("float16"), numbers);
  const auto rounded =
      *reference::Run(graph_, {{"x", numbers}}, none, {.round_to_dtype = true});
  EXPECT_THAT(rounded.at("float16"), ElementsAre(1 + 0x1p-9, 1));
  EXPECT_THAT(rounded.at("bfloat16"), ElementsAre(1, 1));
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
