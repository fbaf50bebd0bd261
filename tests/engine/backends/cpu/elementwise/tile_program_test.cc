#include "engine/backends/cpu/elementwise/tile_program.h"

#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/graph/builder.h"
#include "tests/engine/backends/cpu/graph_runner.h"

namespace gpupool::engine {
namespace {

const reference::Numbers kSpecials = {
    NAN, HUGE_VAL, -HUGE_VAL, 0,     -0.0, 0x1p99, -0x1p99, 88,  89,
    104, -88,      -104,      -1000, 1000, 0.5,    -0.5,    1.5, 2.5,
    1,   -1,       0x1p-99,   20,    -20,  3,      -3,      6};

bool Same(double got, double wanted) {
  const float exact = static_cast<float>(wanted);
  if (std::isnan(exact)) return std::isnan(got);
  if (std::isinf(exact)) return got == exact;
  return std::abs(got - exact) <= 2e-6 * (1 + std::abs(exact));
}

// Runs the node on both back ends and compares all elements.
void ExpectSame(Op op, const Attributes& attributes,
                const std::vector<reference::Numbers>& operands) {
  Graph graph;
  GraphBuilder builder(&graph);
  reference::NamedNumbers inputs, none;
  std::vector<ValueId> ids;
  for (const reference::Numbers& numbers : operands) {
    const std::string name = absl::StrCat("input", ids.size());
    inputs[name] = numbers;
    const auto count = static_cast<int64_t>(numbers.size());
    ids.push_back(*builder.Input(name, {DType::kFloat32, {count}}));
  }
  const auto output = builder.EmitOne(op, ids, attributes);
  ASSERT_TRUE(output.ok()) << output.status();
  graph.AddOutput("y", *output);
  auto wanted = reference::Run(graph, inputs, none);
  auto got = RunOnCpu(graph, inputs, none, 1);
  ASSERT_TRUE(wanted.ok() && got.ok()) << wanted.status() << got.status();
  for (size_t i = 0; i < (*got)["y"].size(); ++i) {
    EXPECT_TRUE(Same((*got)["y"][i], (*wanted)["y"][i]))
        << operands[0][i] << (operands.size() > 1 ? operands[1][i] : 0)
        << " gives " << (*got)["y"][i] << " instead of " << (*wanted)["y"][i];
  }
}

TEST(TileProgramTest, UnaryFunctionsTreatSpecialNumbersAsTheReference) {
  for (int i = 0; i < static_cast<int>(UnaryFunction::kNot); ++i) {
    const auto function = static_cast<UnaryFunction>(i);
    SCOPED_TRACE(i);
    ExpectSame(Op::kUnary, UnaryAttributes{function, 0.5, 1}, {kSpecials});
  }
}

TEST(TileProgramTest, ErfIsExactInProportion) {
  reference::Numbers x;
  for (double number = 1e-30; number < 5; number *= 1.1) {
    x.push_back(static_cast<float>(number));
    x.push_back(static_cast<float>(-number));
  }
  Graph graph;
  GraphBuilder builder(&graph);
  const auto count = static_cast<int64_t>(x.size());
  const ValueId input = *builder.Input("x", {DType::kFloat32, {count}});
  graph.AddOutput(
      "y", *builder.EmitOne(Op::kUnary, {input},
                            UnaryAttributes{.function = UnaryFunction::kErf}));
  reference::NamedNumbers none;
  auto got = RunOnCpu(graph, {{"x", x}}, none, 1);
  ASSERT_TRUE(got.ok()) << got.status();
  for (size_t i = 0; i < x.size(); ++i) {
    const double wanted = std::erf(x[i]);
    EXPECT_NEAR((*got)["y"][i], wanted, 1e-6 * std::abs(wanted)) << x[i];
  }
}

TEST(TileProgramTest, ActivationsTreatSpecialNumbersAsTheReference) {
  for (const Op op : {Op::kRelu, Op::kSigmoid, Op::kTanh}) {
    SCOPED_TRACE(OpName(op));
    ExpectSame(op, {}, {kSpecials});
  }
}

TEST(TileProgramTest, BinaryFunctionsTreatSpecialNumbersAsTheReference) {
  reference::Numbers a, b;
  for (const double x : kSpecials) {
    for (const double y : kSpecials) {
      a.push_back(x);
      b.push_back(y);
    }
  }
  for (const BinaryFunction function :
       {BinaryFunction::kAdd, BinaryFunction::kSubtract,
        BinaryFunction::kMultiply, BinaryFunction::kMinimum,
        BinaryFunction::kMaximum, BinaryFunction::kEqual, BinaryFunction::kLess,
        BinaryFunction::kLessOrEqual, BinaryFunction::kGreater,
        BinaryFunction::kGreaterOrEqual}) {
    SCOPED_TRACE(static_cast<int>(function));
    ExpectSame(Op::kBinary, BinaryAttributes{function}, {a, b});
  }
}

TEST(TileProgramTest, PowersWithOneExponentAreExact) {
  const reference::Numbers base = {-3, -0.5, 0, 2, 7, 1e10};
  for (const double exponent : {2.0, 3.0, 0.5, -1.0, 0.0}) {
    ExpectSame(Op::kBinary, BinaryAttributes{BinaryFunction::kPower},
               {base, reference::Numbers(base.size(), exponent)});
  }
}

// Adds b [1, 5, 1, 1] to x [2, 5, 3, 4] in the layout of convolutions.
TEST(TileProgramTest, ChannelsAreBroadcastInBothLayouts) {
  for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast}) {
    Graph graph;
    GraphBuilder builder(&graph);
    const ValueId x = *builder.Input("x", {DType::kFloat32, {2, 5, 3, 4}});
    const ValueId b = *builder.Input("b", {DType::kFloat32, {1, 5, 1, 1}});
    const ValueId y = *builder.EmitOne(
        Op::kBinary, {x, b}, BinaryAttributes{BinaryFunction::kMultiply});
    graph.AddOutput("y", y);
    for (const ValueId id : {x, b, y}) graph.mutable_value(id).layout = layout;
    reference::NamedNumbers inputs, none;
    for (int i = 0; i < 120; ++i) inputs["x"].push_back(i);
    inputs["b"] = {1, 2, 3, 4, 5};
    auto got = RunOnCpu(graph, inputs, none, 1);
    ASSERT_TRUE(got.ok()) << got.status();
    for (size_t i = 0; i < 120; ++i) {
      EXPECT_EQ((*got)["y"][i], static_cast<double>(i * (i / 12 % 5 + 1)));
    }
  }
}

}  // namespace
}  // namespace gpupool::engine
