#include "engine/graph/layout_rule.h"

namespace gpupool::engine {
namespace {

bool Broadcasts(Op op) {
  return op == Op::kBinary || op == Op::kWhere || op == Op::kFused ||
         op == Op::kBroadcast;
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
  return Info(node.op).layout;
}

bool TakesEitherLayout(const Graph& graph, const Node& node, size_t input) {
  return Broadcasts(node.op) &&
         SameBytesInAnyLayout(graph.value(node.inputs[input]).shape);
}

}  // namespace gpupool::engine
