// Shapes, indices and selection.
#include <algorithm>

#include "tests/fuzz/recipes.h"

namespace gpupool::engine::fuzz {
namespace {

using onnx::TensorProto;

// Returns a shape with the same elements: sizes are joined, or 1 is added.
Dims Reshaped(Dice& dice, Dims dims) {
  if (dims.size() >= 2 && dice.Chance(60)) {
    const auto at =
        static_cast<size_t>(dice.Below(static_cast<int64_t>(dims.size()) - 1));
    dims[at] *= dims[at + 1];
    dims.erase(dims.begin() + static_cast<int64_t>(at) + 1);
  }
  if (dims.size() < 5 && dice.Chance(40)) {
    dims.insert(
        dims.begin() + dice.Between(0, static_cast<int64_t>(dims.size())), 1);
  }
  return dims;
}

void WriteReshape(GraphWriter& w) {
  Dice& dice = w.dice();
  const Pooled x = w.Pick(AllTypes());
  Dims target = Reshaped(dice, x.dims);
  if (!target.empty() && dice.Chance(40)) {
    target[static_cast<size_t>(
        dice.Below(static_cast<int64_t>(target.size())))] = -1;
  }
  if (target.size() == 1 && dice.Chance(20)) target = {-1};
  w.Node("Reshape", {x.name, w.Integers(target)});
}

void WriteExpand(GraphWriter& w) {
  const Pooled big = w.Pick(AllTypes());
  const Pooled x = w.Fresh(big.type, RandomBroadcastable(w.dice(), big.dims));
  w.Node("Expand", {x.name, w.Integers(big.dims)});
}

void WriteSlice(GraphWriter& w) {
  Dice& dice = w.dice();
  const Pooled x = w.PickRank(AllTypes(), 1, 5);
  std::vector<int64_t> starts, ends, axes, steps;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (dice.Chance(40)) continue;
    const bool back = dice.Chance(25);
    axes.push_back(dice.Chance(50) ? axis : axis - x.rank());
    starts.push_back(back ? -1 : dice.Between(-3, 2));
    ends.push_back(back ? dice.OneOf<int64_t>({-1000, 0, -9223372036854775807})
                        : dice.OneOf<int64_t>({1, 2, 3, 1000, -1}));
    steps.push_back(back ? dice.Between(-2, -1) : dice.Between(1, 2));
  }
  if (axes.empty()) return;
  w.Node("Slice", {x.name, w.Integers(starts), w.Integers(ends),
                   w.Integers(axes), w.Integers(steps)});
}

void WritePad(GraphWriter& w) {
  Dice& dice = w.dice();
  const Pooled x = w.PickRank(AllTypes(), 1, 5);
  std::vector<int64_t> pads;
  for (int i = 0; i < 2 * x.rank(); ++i) {
    pads.push_back(dice.Chance(50) ? 0 : dice.Between(-1, 2));
  }
  std::vector<std::string> inputs{x.name, w.Integers(pads)};
  if (dice.Chance(50)) inputs.push_back(w.Fresh(x.type, {}).name);
  SetText(w.Node("Pad", inputs), "mode",
          dice.OneOf<std::string>({"constant", "constant", "reflect", "edge"}));
}

void WriteTile(GraphWriter& w) {
  const Pooled x = w.Pick(AllTypes());
  std::vector<int64_t> repeats;
  for (int i = 0; i < x.rank(); ++i) repeats.push_back(w.dice().Between(1, 2));
  w.Node("Tile", {x.name, w.Integers(repeats)});
}

void WriteTranspose(GraphWriter& w) {
  const Pooled x = w.Pick(AllTypes());
  std::vector<int64_t> order;
  for (int i = 0; i < x.rank(); ++i) {
    order.insert(order.begin() + w.dice().Between(0, i), i);
  }
  SetInts(w.Node("Transpose", {x.name}), "perm", order);
}

void WriteSplit(GraphWriter& w) {
  Dice& dice = w.dice();
  const Pooled x = w.PickRank(AllTypes(), 1, 5);
  const int64_t axis = dice.Below(x.rank());
  const int64_t size = x.dims[static_cast<size_t>(axis)];
  if (size < 2) return;
  const int64_t first = dice.Between(1, size - 1);
  onnx::NodeProto* node =
      w.Node("Split", {x.name, w.Integers({first, size - first})}, 2);
  Set(node, "axis", dice.Chance(50) ? axis : axis - x.rank());
}

void WriteConcat(GraphWriter& w) {
  Dice& dice = w.dice();
  const Pooled x = w.PickRank(AllTypes(), 1, 5);
  const int64_t axis = dice.Below(x.rank());
  Dims dims = x.dims;
  dims[static_cast<size_t>(axis)] = dice.Between(1, 4);
  std::vector<std::string> inputs{x.name, w.Fresh(x.type, dims).name};
  if (dice.Chance(30)) inputs.push_back(x.name);
  Set(w.Node("Concat", inputs), "axis",
      dice.Chance(50) ? axis : axis - x.rank());
}

// Writes Squeeze and Unsqueeze, whose axes are an input.
void WriteUnsqueeze(GraphWriter& w) {
  Dice& dice = w.dice();
  const Pooled x = w.PickRank(AllTypes(), 0, 4);
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (x.dims[static_cast<size_t>(axis)] == 1 && dice.Chance(50)) {
      w.Node("Squeeze", {x.name, w.Integers({axis})});
      return;
    }
  }
  w.Node("Unsqueeze",
         {x.name, w.Integers({dice.Between(-x.rank() - 1, x.rank())})});
}

// Returns indices below `size`, some of them counted from the end.
std::string Indices(GraphWriter& w, const Dims& dims, int64_t size) {
  Dice& dice = w.dice();
  std::vector<double> numbers(static_cast<size_t>(ElementsOf(dims)));
  for (double& x : numbers) {
    x = static_cast<double>(size == 0 ? 0 : dice.Between(-size, size - 1));
    if (dice.Chance(1) && dice.Chance(10)) x = 1000;
  }
  const int type = dice.Chance(70) ? TensorProto::INT64 : TensorProto::INT32;
  return w.Known(type, dims, numbers);
}

void WriteGather(GraphWriter& w) {
  Dice& dice = w.dice();
  const Pooled x = w.PickRank(AllTypes(), 1, 4);
  const int64_t axis = dice.Below(x.rank());
  const int64_t size = x.dims[static_cast<size_t>(axis)];
  if (dice.Chance(50)) {
    const Dims dims =
        RandomDimsOfRank(dice, static_cast<int>(dice.Between(0, 2)));
    Set(w.Node("Gather", {x.name, Indices(w, dims, size)}), "axis", axis);
    return;
  }
  Dims dims = x.dims;
  dims[static_cast<size_t>(axis)] = dice.Between(1, 4);
  Set(w.Node("GatherElements", {x.name, Indices(w, dims, size)}), "axis", axis);
}

void WriteScatter(GraphWriter& w) {
  Dice& dice = w.dice();
  const Pooled x = w.PickRank(AllTypes(), 1, 4);
  const int64_t axis = dice.Below(x.rank());
  const int64_t size = x.dims[static_cast<size_t>(axis)];
  Dims dims = x.dims;
  dims[static_cast<size_t>(axis)] = dice.Between(1, std::max<int64_t>(size, 1));
  onnx::NodeProto* node =
      w.Node("ScatterElements",
             {x.name, Indices(w, dims, size), w.Fresh(x.type, dims).name});
  Set(node, "axis", axis);
  if (dice.Chance(50)) {
    SetText(node, "reduction", dice.OneOf<std::string>({"add", "mul", "max"}));
  }
}

void WriteNd(GraphWriter& w) {
  Dice& dice = w.dice();
  const Pooled x = w.PickRank(AllTypes(), 1, 4);
  const int64_t depth = dice.Between(1, x.rank()), rows = dice.Between(1, 4);
  int64_t smallest = x.dims[0];
  for (int64_t i = 0; i < depth; ++i) {
    smallest = std::min(smallest, x.dims[static_cast<size_t>(i)]);
  }
  const std::string indices = Indices(w, {rows, depth}, smallest);
  if (dice.Chance(50)) {
    w.Node("GatherND", {x.name, indices});
    return;
  }
  Dims dims(x.dims.begin() + depth, x.dims.end());
  dims.insert(dims.begin(), rows);
  w.Node("ScatterND", {x.name, indices, w.Fresh(x.type, dims).name});
}

void WriteTopK(GraphWriter& w) {
  Dice& dice = w.dice();
  const Pooled x = w.PickRank(AllTypes(), 1, 4);
  const int64_t axis = dice.Below(x.rank());
  const int64_t size = x.dims[static_cast<size_t>(axis)];
  onnx::NodeProto* node = w.Node(
      "TopK",
      {x.name, w.Integers({dice.Between(1, std::max<int64_t>(size, 1))})}, 2);
  Set(node, "axis", axis);
  if (dice.Chance(40)) Set(node, "largest", 0);
}

void WriteOneHot(GraphWriter& w) {
  Dice& dice = w.dice();
  const Pooled x = w.PickRank({TensorProto::INT64, TensorProto::INT32}, 0, 3);
  const Pooled values = w.Fresh(RandomType(dice), {2});
  w.Node("OneHot", {x.name, w.Integers({dice.Between(1, 5)}), values.name});
}

void WriteCumSum(GraphWriter& w) {
  const Pooled x = w.PickRank(AllTypes(), 1, 4);
  const double axis = static_cast<double>(w.dice().Below(x.rank()));
  onnx::NodeProto* node =
      w.Node("CumSum", {x.name, w.Known(TensorProto::INT64, {}, {axis})});
  if (w.dice().Chance(30)) Set(node, "reverse", 1);
  if (w.dice().Chance(30)) Set(node, "exclusive", 1);
}

void WriteTrilu(GraphWriter& w) {
  const Pooled x = w.PickRank(AllTypes(), 2, 4);
  const double k = static_cast<double>(w.dice().Between(-2, 2));
  Set(w.Node("Trilu", {x.name, w.Known(TensorProto::INT64, {}, {k})}), "upper",
      w.dice().Below(2));
}

void WriteReduce(GraphWriter& w) {
  Dice& dice = w.dice();
  const std::string op = dice.OneOf<std::string>(
      {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd",
       "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare"});
  const Pooled x = w.Pick(AllTypes());
  std::vector<int64_t> axes;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (dice.Chance(50))
      axes.push_back(dice.Chance(50) ? axis : axis - x.rank());
  }
  const bool as_input = w.opset() >= 18 || op == "ReduceSum";
  std::vector<std::string> inputs{x.name};
  if (as_input && !axes.empty()) inputs.push_back(w.Integers(axes));
  onnx::NodeProto* node = w.Node(op, inputs);
  if (!as_input && !axes.empty()) SetInts(node, "axes", axes);
  if (dice.Chance(50)) Set(node, "keepdims", dice.Below(2));
}

}  // namespace

std::vector<NamedRecipe> MovementRecipes() {
  return {{"Reshape", WriteReshape},
          {"Expand", WriteExpand},
          {"Slice", WriteSlice},
          {"Pad", WritePad},
          {"Tile", WriteTile},
          {"Transpose", WriteTranspose},
          {"Split", WriteSplit},
          {"Concat", WriteConcat},
          {"Unsqueeze", WriteUnsqueeze},
          {"Gather", WriteGather},
          {"ScatterElements", WriteScatter},
          {"GatherND", WriteNd},
          {"TopK", WriteTopK},
          {"OneHot", WriteOneHot},
          {"CumSum", WriteCumSum},
          {"Trilu", WriteTrilu},
          {"ReduceSum", WriteReduce}};
}

}  // namespace gpupool::engine::fuzz
