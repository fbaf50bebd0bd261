#include "engine/graph/layout_rule.h"

#include <vector>

namespace gpupool::engine {
namespace {

bool Broadcasts(Op op) {
  return op == Op::kBinary || op == Op::kWhere || op == Op::kFused ||
         op == Op::kBroadcast;
}

bool ChoosesCellsOfImage(const Graph& graph, const Node& node) {
  return node.op == Op::kGather &&
         graph.value(node.inputs[0]).shape.rank() == 4 &&
         graph.value(node.inputs[1]).shape.rank() == 1;
}

}  // namespace

LayoutRule LayoutRuleOf(const Graph& graph, const Node& node) {
  // A reduction may only start from an image, a broadcast may only end in one.
  const int rank = node.op == Op::kReduce
                       ? graph.value(node.inputs[0]).shape.rank()
                       : graph.value(node.outputs[0]).shape.rank();
  if ((Broadcasts(node.op) || node.op == Op::kReduce) && rank != 4) {
    return LayoutRule::kRowMajorOnly;
  }
  if (ChoosesCellsOfImage(graph, node)) return LayoutRule::kSame;
  return Info(node.op).layout;
}

bool TakesEitherLayout(const Graph& graph, const Node& node, size_t input) {
  return Broadcasts(node.op) &&
         SameBytesInAnyLayout(graph.value(node.inputs[input]).shape);
}

CellMove CellMoveOf(const Node& node) {
  if (node.op != Op::kTranspose) return CellMove::kNone;
  const auto& permutation = node.get<TransposeAttributes>().permutation;
  if (permutation == std::vector<int>{0, 2, 3, 1}) return CellMove::kFromImage;
  if (permutation == std::vector<int>{0, 3, 1, 2}) return CellMove::kToImage;
  return CellMove::kNone;
}

bool KeepsCells(const Graph& graph, const Node& node) {
  const CellMove move = CellMoveOf(node);
  if (move == CellMove::kNone) return false;
  const ValueId image =
      move == CellMove::kFromImage ? node.inputs[0] : node.outputs[0];
  return graph.value(image).layout == Layout::kChannelsLast;
}

}  // namespace gpupool::engine
