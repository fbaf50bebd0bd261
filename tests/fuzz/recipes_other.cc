// Arithmetic with constants, limits, quantisation, losses, sequences and
// control flow; and the choice among all recipes.
#include <algorithm>

#include "engine/import/onnx/graph/lowerings.h"
#include "tests/fuzz/recipes.h"

namespace gpupool::engine::fuzz {
namespace {

using onnx::TensorProto;

// Writes an operation with one number, as exporters write scales and shifts.
void WriteScalar(GraphWriter& w) {
  Dice& dice = w.dice();
  const Pooled x = w.Pick(FloatingTypes());
  const std::string number =
      w.Known(x.type, dice.Chance(60) ? Dims{} : Dims{1},
              {dice.OneOf<double>({0.5, 2, 1, 0, -1, 0.1, 3, 6})});
  std::vector<std::string> inputs{x.name, number};
  if (dice.Chance(25)) std::swap(inputs[0], inputs[1]);
  w.Node(dice.OneOf<std::string>(
             {"Mul", "Add", "Sub", "Div", "Pow", "Max", "Min"}),
         inputs);
}

void WriteClip(GraphWriter& w) {
  const Pooled x = w.Pick(AllTypes());
  const std::string low = w.dice().Chance(70) ? w.Known(x.type, {}, {0}) : "";
  std::vector<std::string> inputs{x.name, low};
  if (low.empty() || w.dice().Chance(60)) {
    inputs.push_back(w.Known(x.type, {}, {w.dice().OneOf<double>({1, 3, 6})}));
  }
  w.Node("Clip", inputs);
}

void WriteCast(GraphWriter& w) {
  const Pooled x = w.Pick(AllTypes());
  Set(w.Node("Cast", {x.name}), "to", RandomType(w.dice()));
}

void WriteComparison(GraphWriter& w) {
  Dice& dice = w.dice();
  const Pooled x = w.Pick(AllTypes());
  const Pooled y = w.Fresh(x.type, RandomBroadcastable(dice, x.dims));
  const std::string condition =
      w.Node(dice.OneOf<std::string>(
                 {"Greater", "Less", "Equal", "GreaterOrEqual", "LessOrEqual"}),
             {x.name, y.name})
          ->output(0);
  if (dice.Chance(60)) w.Node("Where", {condition, x.name, y.name});
}

void WriteQuantize(GraphWriter& w) {
  Dice& dice = w.dice();
  const Pooled x = w.Pick({TensorProto::FLOAT});
  const int type = dice.OneOf<int>({TensorProto::UINT8, TensorProto::INT8});
  const double zero = type == TensorProto::UINT8 ? 128 : 0;
  const std::string scale =
      w.Known(TensorProto::FLOAT, {}, {dice.OneOf<double>({0.1, 0.02, 1})});
  const std::string point = w.Known(type, {}, {zero});
  const std::string q =
      w.Node("QuantizeLinear", {x.name, scale, point})->output(0);
  if (dice.Chance(80)) w.Node("DequantizeLinear", {q, scale, point});
}

void WriteLoss(GraphWriter& w) {
  Dice& dice = w.dice();
  const int64_t n = dice.Between(1, 4), c = dice.Between(1, 5);
  std::vector<double> labels(static_cast<size_t>(n));
  for (double& label : labels) label = static_cast<double>(dice.Below(c));
  const Pooled x = w.Fresh(RandomFloatingType(dice), {n, c});
  std::vector<std::string> inputs{x.name,
                                  w.Known(TensorProto::INT64, {n}, labels)};
  if (dice.Chance(30)) inputs.push_back(w.Fresh(x.type, {c}).name);
  onnx::NodeProto* node =
      w.Node(dice.OneOf<std::string>(
                 {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"}),
             inputs);
  SetText(node, "reduction", dice.OneOf<std::string>({"mean", "sum", "none"}));
}

void WriteSequence(GraphWriter& w) {
  Dice& dice = w.dice();
  const Pooled x = w.PickRank(AllTypes(), 1, 4);
  const Pooled y = w.Fresh(x.type, x.dims);
  const std::string sequence =
      w.Node("SequenceConstruct", {x.name, y.name})->output(0);
  if (dice.Chance(50)) {
    const double at = static_cast<double>(dice.Between(-2, 1));
    w.Node("SequenceAt", {sequence, w.Known(TensorProto::INT64, {}, {at})});
    return;
  }
  Set(w.Node("ConcatFromSequence", {sequence}), "axis", dice.Below(x.rank()));
}

void AddSubgraph(onnx::NodeProto* node, const std::string& name,
                 onnx::GraphProto graph) {
  auto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::GRAPH);
  *attribute->mutable_g() = std::move(graph);
}

// Returns a subgraph that applies one operator to an outer value.
onnx::GraphProto Branch(const std::string& op, const Pooled& outer,
                        const std::string& result) {
  onnx::GraphProto graph;
  graph.set_name(result + " graph");
  onnx::NodeProto* node = graph.add_node();
  node->set_op_type(op);
  node->add_input(outer.name);
  node->add_output(result);
  auto* output = graph.add_output();
  output->set_name(result);
  output->mutable_type()->mutable_tensor_type()->set_elem_type(outer.type);
  return graph;
}

void WriteIf(GraphWriter& w) {
  const Pooled x = w.Pick(FloatingTypes());
  const double condition = static_cast<double>(w.dice().Below(2));
  onnx::NodeProto* node =
      w.Node("If", {w.Known(TensorProto::BOOL, {}, {condition})});
  const std::string name = node->output(0);
  AddSubgraph(node, "then_branch", Branch("Relu", x, name + "t"));
  AddSubgraph(node, "else_branch", Branch("Neg", x, name + "e"));
}

// Writes a loop that doubles a value a few times and collects it.
void WriteLoop(GraphWriter& w) {
  const Pooled x = w.Pick(FloatingTypes());
  const double count = static_cast<double>(w.dice().Between(1, 3));
  const std::string trips = w.Known(TensorProto::INT64, {}, {count});
  onnx::NodeProto* node = w.Node("Loop", {trips, "", x.name}, 2);
  const std::string name = node->output(0);
  onnx::GraphProto body;
  body.set_name(name + " body");
  const auto port = [&](onnx::ValueInfoProto* info, const std::string& suffix,
                        int type) {
    info->set_name(name + suffix);
    info->mutable_type()->mutable_tensor_type()->set_elem_type(type);
  };
  port(body.add_input(), "i", TensorProto::INT64);
  port(body.add_input(), "c", TensorProto::BOOL);
  port(body.add_input(), "x", x.type);
  onnx::NodeProto* keep = body.add_node();
  keep->set_op_type("Identity");
  keep->add_input(name + "c");
  keep->add_output(name + "d");
  onnx::NodeProto* twice = body.add_node();
  twice->set_op_type("Add");
  twice->add_input(name + "x");
  twice->add_input(name + "x");
  twice->add_output(name + "y");
  port(body.add_output(), "d", TensorProto::BOOL);
  port(body.add_output(), "y", x.type);
  port(body.add_output(), "y", x.type);
  AddSubgraph(node, "body", std::move(body));
}

const std::vector<NamedRecipe>& AllRecipes() {
  static const auto& all = [] {
    auto& recipes = *new std::vector<NamedRecipe>;
    for (const auto& family :
         {ProductRecipes(), ImageRecipes(), MovementRecipes(), NormRecipes(),
          OtherRecipes()}) {
      recipes.insert(recipes.end(), family.begin(), family.end());
    }
    return recipes;
  }();
  return all;
}

}  // namespace

std::vector<NamedRecipe> OtherRecipes() {
  return {{"Mul", WriteScalar},
          {"Clip", WriteClip},
          {"Cast", WriteCast},
          {"Where", WriteComparison},
          {"QuantizeLinear", WriteQuantize},
          {"SoftmaxCrossEntropyLoss", WriteLoss},
          {"SequenceConstruct", WriteSequence},
          {"If", WriteIf},
          {"Loop", WriteLoop}};
}

bool AddRandomNode(GraphWriter& writer) {
  constexpr int kTries = 6;
  const auto& recipes = AllRecipes();
  const auto operators = onnx_import::Operators();
  for (int i = 0; i < kTries; ++i) {
    if (writer.dice().Chance(50)) {
      if (writer.Try(writer.dice().OneOf(recipes).write)) return true;
      continue;
    }
    const auto& entry = operators[static_cast<size_t>(
        writer.dice().Below(static_cast<int64_t>(operators.size())))];
    if (!entry.domain.empty()) continue;
    const std::string op(entry.name);
    if (writer.Try([&op](GraphWriter& w) { WriteFromSchema(w, op); })) {
      return true;
    }
  }
  return false;
}

const std::vector<int>& FloatingTypes() {
  static const auto& types =
      *new std::vector<int>{TensorProto::FLOAT, TensorProto::FLOAT16,
                            TensorProto::BFLOAT16, TensorProto::DOUBLE};
  return types;
}

const std::vector<int>& AllTypes() {
  static const auto& types = *new std::vector<int>{
      TensorProto::FLOAT,  TensorProto::FLOAT16, TensorProto::BFLOAT16,
      TensorProto::DOUBLE, TensorProto::INT64,   TensorProto::INT32,
      TensorProto::INT8,   TensorProto::UINT8,   TensorProto::BOOL};
  return types;
}

}  // namespace gpupool::engine::fuzz
