// Matrix products, convolutions, attention and recurrent layers.
#include <algorithm>

#include "tests/fuzz/recipes.h"

namespace gpupool::engine::fuzz {
namespace {

using onnx::TensorProto;

void WriteMatMul(GraphWriter& w) {
  const Pooled a = w.PickRank(FloatingTypes(), 1, 4);
  Dims dims = w.dice().Chance(60) && a.rank() > 2
                  ? Dims(a.dims.begin(), a.dims.end() - 2)
                  : Dims{};
  if (w.dice().Chance(30)) dims = RandomBroadcastable(w.dice(), dims);
  dims.push_back(a.dims.back());
  if (w.dice().Chance(85)) dims.push_back(w.dice().Between(1, 9));
  w.Node("MatMul", {a.name, w.Fresh(a.type, dims).name});
}

void WriteGemm(GraphWriter& w) {
  Dice& dice = w.dice();
  const Pooled a = w.PickRank(FloatingTypes(), 2, 2);
  const bool ta = dice.Chance(40), tb = dice.Chance(40);
  const int64_t k = a.dims[ta ? 0 : 1], m = a.dims[ta ? 1 : 0];
  const int64_t n = dice.Between(1, 9);
  std::vector<std::string> inputs{
      a.name, w.Fresh(a.type, tb ? Dims{n, k} : Dims{k, n}).name};
  if (dice.Chance(70)) {
    inputs.push_back(
        w.Fresh(a.type, RandomBroadcastable(dice, Dims{m, n})).name);
  }
  onnx::NodeProto* node = w.Node("Gemm", inputs);
  if (ta) Set(node, "transA", 1);
  if (tb) Set(node, "transB", 1);
  if (dice.Chance(30)) SetFloat(node, "alpha", 0.5);
  if (dice.Chance(30)) SetFloat(node, "beta", dice.OneOf<double>({0, 2, 0.1}));
}

// Adds strides, pads and dilations for the spatial axes.
void AddWindow(GraphWriter& w, onnx::NodeProto* node, size_t axes) {
  Dice& dice = w.dice();
  const auto numbers = [&](size_t count, int64_t low, int64_t high) {
    std::vector<int64_t> all(count);
    for (int64_t& x : all) x = dice.Between(low, high);
    return all;
  };
  if (dice.Chance(50)) SetInts(node, "strides", numbers(axes, 1, 3));
  if (dice.Chance(20)) SetInts(node, "dilations", numbers(axes, 1, 2));
  if (dice.Chance(20)) {
    SetText(node, "auto_pad",
            dice.OneOf<std::string>({"SAME_UPPER", "SAME_LOWER", "VALID"}));
  } else if (dice.Chance(60)) {
    SetInts(node, "pads", numbers(2 * axes, 0, 2));
  }
}

Pooled ProductImage(GraphWriter& w) {
  if (w.dice().Chance(60)) return w.PickRank(FloatingTypes(), 3, 5);
  Dims dims{w.dice().Between(1, 3), w.dice().Between(1, 6)};
  for (int64_t i = w.dice().Between(1, 3); i > 0; --i) {
    dims.push_back(w.dice().Between(1, 9));
  }
  return w.Fresh(RandomFloatingType(w.dice()), dims);
}

void WriteConv(GraphWriter& w) {
  Dice& dice = w.dice();
  const Pooled x = ProductImage(w);
  const int64_t channels = std::max<int64_t>(x.dims[1], 1);
  const int64_t groups = dice.Chance(30)                        ? channels
                         : channels % 2 == 0 && dice.Chance(30) ? 2
                                                                : 1;
  const int64_t outputs = groups * dice.Between(1, 3);
  Dims kernel{outputs, channels / groups};
  for (int axis = 2; axis < x.rank(); ++axis) {
    kernel.push_back(dice.Between(1, 3));
  }
  std::vector<std::string> inputs{x.name, w.Fresh(x.type, kernel).name};
  if (dice.Chance(60)) inputs.push_back(w.Fresh(x.type, {outputs}).name);
  onnx::NodeProto* node = w.Node("Conv", inputs);
  if (groups != 1) Set(node, "group", groups);
  AddWindow(w, node, x.dims.size() - 2);
}

void WriteConvTranspose(GraphWriter& w) {
  Dice& dice = w.dice();
  const Pooled x = ProductImage(w);
  Dims kernel{x.dims[1], dice.Between(1, 4)};
  for (int axis = 2; axis < x.rank(); ++axis) {
    kernel.push_back(dice.Between(1, 3));
  }
  std::vector<std::string> inputs{x.name, w.Fresh(x.type, kernel).name};
  if (dice.Chance(50)) inputs.push_back(w.Fresh(x.type, {kernel[1]}).name);
  AddWindow(w, w.Node("ConvTranspose", inputs), x.dims.size() - 2);
}

void WriteMatMulInteger(GraphWriter& w) {
  const std::vector<int> bytes{TensorProto::UINT8, TensorProto::INT8};
  const Pooled a = w.PickRank(bytes, 2, 3);
  const Pooled b =
      w.Fresh(w.dice().OneOf(bytes), {a.dims.back(), w.dice().Between(1, 5)});
  std::vector<std::string> inputs{a.name, b.name};
  if (w.dice().Chance(60)) inputs.push_back(w.Fresh(a.type, {}).name);
  if (inputs.size() == 3 && w.dice().Chance(60)) {
    inputs.push_back(w.Fresh(b.type, {}).name);
  }
  w.Node("MatMulInteger", inputs);
}

void WriteRecurrent(GraphWriter& w) {
  Dice& dice = w.dice();
  const std::string op = dice.OneOf<std::string>({"RNN", "GRU", "LSTM"});
  const int64_t gates = op == "RNN" ? 1 : op == "GRU" ? 3 : 4;
  const int type =
      dice.Chance(70) ? TensorProto::FLOAT : RandomFloatingType(dice);
  const int64_t steps = dice.Between(1, 4), batch = dice.Between(1, 3);
  const int64_t inputs = dice.Between(1, 5), hidden = dice.Between(1, 5);
  const std::string direction =
      dice.OneOf<std::string>({"forward", "reverse", "bidirectional"});
  const int64_t ways = direction == "bidirectional" ? 2 : 1;
  std::vector<std::string> names{
      w.Fresh(type, {steps, batch, inputs}).name,
      w.Fresh(type, {ways, gates * hidden, inputs}).name,
      w.Fresh(type, {ways, gates * hidden, hidden}).name};
  const bool bias = dice.Chance(60), state = dice.Chance(40);
  if (bias || state) {
    names.push_back(bias ? w.Fresh(type, {ways, 2 * gates * hidden}).name : "");
  }
  if (state) {
    names.push_back("");
    names.push_back(w.Fresh(type, {ways, batch, hidden}).name);
  }
  onnx::NodeProto* node = w.Node(
      op, names, static_cast<int>(dice.Between(1, op == "LSTM" ? 3 : 2)));
  Set(node, "hidden_size", hidden);
  SetText(node, "direction", direction);
  if (op == "GRU" && dice.Chance(50)) Set(node, "linear_before_reset", 1);
  if (dice.Chance(15)) SetFloat(node, "clip", 0.5);
}

void WriteEinsum(GraphWriter& w) {
  struct Form {
    std::string equation;
    std::vector<std::string> operands;
  };
  const std::vector<Form> forms{{"ij,jk->ik", {"ij", "jk"}},
                                {"bij,bjk->bik", {"bij", "bjk"}},
                                {"ij->ji", {"ij"}},
                                {"ij->", {"ij"}},
                                {"bhtd,bhsd->bhts", {"bhtd", "bhsd"}},
                                {"ii->i", {"ii"}},
                                {"i,j->ij", {"i", "j"}},
                                {"bij,kj->bik", {"bij", "kj"}},
                                {"...i,...i->...", {"bi", "bi"}},
                                {"ijk,jil->kl", {"ijk", "jil"}}};
  const Form& form = w.dice().OneOf(forms);
  const int type = RandomFloatingType(w.dice());
  int64_t sizes[26];
  for (int64_t& size : sizes) size = w.dice().Between(1, 4);
  std::vector<std::string> names;
  for (const std::string& letters : form.operands) {
    Dims dims;
    for (const char letter : letters) dims.push_back(sizes[letter - 'a']);
    names.push_back(w.Fresh(type, dims).name);
  }
  SetText(w.Node("Einsum", names), "equation", form.equation);
}

// Writes attention as exporters do: two products around a softmax.
void WriteAttentionParts(GraphWriter& w) {
  Dice& dice = w.dice();
  const int type = RandomFloatingType(dice);
  const int64_t b = dice.Between(1, 2), h = dice.Between(1, 3);
  const int64_t t = dice.Between(1, 5), s = dice.Between(1, 5);
  const int64_t d = dice.Between(1, 6), e = dice.Between(1, 6);
  const std::string q = w.Fresh(type, {b, h, t, d}).name;
  const std::string k = w.Fresh(type, {b, h, d, s}).name;
  std::string scores = w.Node("MatMul", {q, k})->output(0);
  if (dice.Chance(70)) {
    scores = w.Node(dice.Chance(50) ? "Mul" : "Div",
                    {scores, w.Known(type, {}, {2.0})})
                 ->output(0);
  }
  if (dice.Chance(50)) {
    const Dims mask = RandomBroadcastable(dice, Dims{b, h, t, s});
    scores = w.Node("Add", {scores, w.Fresh(type, mask).name})->output(0);
  }
  onnx::NodeProto* softmax = w.Node("Softmax", {scores});
  Set(softmax, "axis", -1);
  const std::string weights = softmax->output(0);
  w.Node("MatMul", {weights, w.Fresh(type, {b, h, s, e}).name});
}

void WriteAttention(GraphWriter& w) {
  Dice& dice = w.dice();
  const int type = RandomFloatingType(dice);
  const int64_t b = dice.Between(1, 2), h = dice.Between(1, 3);
  const int64_t t = dice.Between(1, 5), s = dice.Between(1, 5);
  const int64_t d = 2 * dice.Between(1, 3);
  std::vector<std::string> names{w.Fresh(type, {b, h, t, d}).name,
                                 w.Fresh(type, {b, h, s, d}).name,
                                 w.Fresh(type, {b, h, s, d}).name};
  if (dice.Chance(40)) names.push_back(w.Fresh(type, {t, s}).name);
  onnx::NodeProto* node = w.Node("Attention", names);
  if (dice.Chance(40)) Set(node, "is_causal", 1);
  if (dice.Chance(20)) SetFloat(node, "scale", 0.3);
  if (dice.Chance(20)) SetFloat(node, "softcap", 2.0);
}

}  // namespace

std::vector<NamedRecipe> ProductRecipes() {
  return {{"MatMul", WriteMatMul},
          {"Gemm", WriteGemm},
          {"Conv", WriteConv},
          {"ConvTranspose", WriteConvTranspose},
          {"MatMulInteger", WriteMatMulInteger},
          {"LSTM", WriteRecurrent},
          {"Einsum", WriteEinsum},
          {"Softmax", WriteAttentionParts},
          {"Attention", WriteAttention}};
}

}  // namespace gpupool::engine::fuzz
