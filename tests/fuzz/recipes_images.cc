// Pooling, resizing and norms of images and sequences.
#include <algorithm>

#include "tests/fuzz/recipes.h"

namespace gpupool::engine::fuzz {
namespace {

using onnx::TensorProto;

Pooled Image(GraphWriter& w) {
  if (w.dice().Chance(50)) return w.PickRank(FloatingTypes(), 3, 5);
  Dims dims{w.dice().Between(1, 3), w.dice().Between(1, 6)};
  for (int64_t i = w.dice().Between(1, 3); i > 0; --i) {
    dims.push_back(w.dice().Between(2, 9));
  }
  return w.Fresh(RandomFloatingType(w.dice()), dims);
}

void WritePool(GraphWriter& w) {
  Dice& dice = w.dice();
  const std::string op =
      dice.OneOf<std::string>({"MaxPool", "AveragePool", "LpPool"});
  const Pooled x = Image(w);
  std::vector<int64_t> kernel, strides, pads;
  for (int axis = 2; axis < x.rank(); ++axis) {
    kernel.push_back(dice.Between(1, 3));
    strides.push_back(dice.Between(1, 3));
  }
  for (size_t i = 0; i < 2 * kernel.size(); ++i) {
    pads.push_back(dice.Below(kernel[i % kernel.size()]));
  }
  onnx::NodeProto* node =
      w.Node(op, {x.name}, op == "MaxPool" && dice.Chance(25) ? 2 : 1);
  SetInts(node, "kernel_shape", kernel);
  if (dice.Chance(60)) SetInts(node, "strides", strides);
  if (dice.Chance(50)) SetInts(node, "pads", pads);
  if (op != "LpPool" && dice.Chance(25)) Set(node, "ceil_mode", 1);
  if (op == "AveragePool" && dice.Chance(40)) Set(node, "count_include_pad", 1);
}

void WriteGlobalPool(GraphWriter& w) {
  w.Node(w.dice().OneOf<std::string>(
             {"GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"}),
         {Image(w).name});
}

void WriteResize(GraphWriter& w) {
  Dice& dice = w.dice();
  const Pooled x = Image(w);
  std::vector<double> scales(static_cast<size_t>(x.rank()), 1.0);
  for (size_t i = 2; i < scales.size(); ++i) {
    scales[i] = dice.OneOf<double>({0.5, 1, 2, 1.5, 3});
  }
  const std::string known = w.Known(TensorProto::FLOAT, {x.rank()}, scales);
  onnx::NodeProto* node = w.Node("Resize", {x.name, "", known});
  SetText(node, "mode",
          dice.OneOf<std::string>({"nearest", "linear", "cubic"}));
  SetText(node, "coordinate_transformation_mode",
          dice.OneOf<std::string>({"half_pixel", "asymmetric", "align_corners",
                                   "pytorch_half_pixel"}));
}

void WriteBatchNorm(GraphWriter& w) {
  const Pooled x =
      w.dice().Chance(60) ? Image(w) : w.PickRank(FloatingTypes(), 2, 5);
  const Dims channels{x.dims[1]};
  std::vector<double> ones(static_cast<size_t>(ElementsOf(channels)));
  for (double& one : ones) one = w.dice().Uniform(0.2, 2);
  w.Node(
      "BatchNormalization",
      {x.name, w.Fresh(x.type, channels).name, w.Fresh(x.type, channels).name,
       w.Fresh(x.type, channels).name, w.Known(x.type, channels, ones)});
}

void WriteInstanceNorm(GraphWriter& w) {
  const Pooled x = Image(w);
  const Dims channels{x.dims[1]};
  w.Node("InstanceNormalization", {x.name, w.Fresh(x.type, channels).name,
                                   w.Fresh(x.type, channels).name});
}

void WriteLayerNorm(GraphWriter& w) {
  Dice& dice = w.dice();
  const Pooled x = w.PickRank(FloatingTypes(), 1, 5);
  const int64_t axis = dice.Below(x.rank());
  const Dims dims(x.dims.begin() + axis, x.dims.end());
  std::vector<std::string> inputs{x.name, w.Fresh(x.type, dims).name};
  const bool rms = dice.Chance(30);
  if (!rms && dice.Chance(70)) inputs.push_back(w.Fresh(x.type, dims).name);
  onnx::NodeProto* node =
      w.Node(rms ? "RMSNormalization" : "LayerNormalization", inputs,
             !rms && dice.Chance(15) ? 3 : 1);
  Set(node, "axis", dice.Chance(50) ? axis : axis - x.rank());
}

void WriteGroupNorm(GraphWriter& w) {
  const Pooled x = Image(w);
  const int64_t groups = x.dims[1] % 2 == 0 ? 2 : 1;
  const Dims dims{w.opset() >= 21 ? x.dims[1] : groups};
  onnx::NodeProto* node =
      w.Node("GroupNormalization",
             {x.name, w.Fresh(x.type, dims).name, w.Fresh(x.type, dims).name});
  Set(node, "num_groups", groups);
}

void WriteDepthToSpace(GraphWriter& w) {
  Dice& dice = w.dice();
  const int type = RandomType(dice);
  const Dims deep{dice.Between(1, 2), 4 * dice.Between(1, 2),
                  dice.Between(1, 4), dice.Between(1, 4)};
  const Dims wide{deep[0], dice.Between(1, 3), 2 * deep[2], 2 * deep[3]};
  if (dice.Chance(50)) {
    Set(w.Node("SpaceToDepth", {w.Fresh(type, wide).name}), "blocksize", 2);
    return;
  }
  onnx::NodeProto* node = w.Node("DepthToSpace", {w.Fresh(type, deep).name});
  Set(node, "blocksize", 2);
  SetText(node, "mode", dice.OneOf<std::string>({"DCR", "CRD"}));
}

void WriteGridSample(GraphWriter& w) {
  Dice& dice = w.dice();
  const int type = RandomFloatingType(dice);
  const Pooled x = w.Fresh(type, {dice.Between(1, 2), dice.Between(1, 3),
                                  dice.Between(1, 6), dice.Between(1, 6)});
  const Pooled grid =
      w.Fresh(type, {x.dims[0], dice.Between(1, 4), dice.Between(1, 4), 2});
  onnx::NodeProto* node = w.Node("GridSample", {x.name, grid.name});
  SetText(node, "padding_mode",
          dice.OneOf<std::string>({"zeros", "border", "reflection"}));
  Set(node, "align_corners", dice.Below(2));
}

}  // namespace

std::vector<NamedRecipe> ImageRecipes() {
  return {{"MaxPool", WritePool},
          {"GlobalAveragePool", WriteGlobalPool},
          {"Resize", WriteResize},
          {"DepthToSpace", WriteDepthToSpace},
          {"GridSample", WriteGridSample}};
}

std::vector<NamedRecipe> NormRecipes() {
  return {{"BatchNormalization", WriteBatchNorm},
          {"InstanceNormalization", WriteInstanceNorm},
          {"LayerNormalization", WriteLayerNorm},
          {"GroupNormalization", WriteGroupNorm}};
}

}  // namespace gpupool::engine::fuzz
