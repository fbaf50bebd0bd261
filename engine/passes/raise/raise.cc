#include "engine/passes/raise/raise.h"

#include "engine/base/status_macros.h"
#include "engine/passes/simplify/fold_constants.h"
#include "engine/passes/simplify/simplify.h"

namespace gpupool::engine {
namespace {

// Adds the argmax output that the gradient of a max pool reads.
absl::Status KeepArgmax(Sweep& sweep, Node& node) {
  if (node.op != Op::kMaxPool || node.get<Pool2dAttributes>().with_argmax) {
    return absl::OkStatus();
  }
  auto pool = node.get<Pool2dAttributes>();
  pool.with_argmax = true;
  ASSIGN_OR_RETURN(const ValueId y,
                   sweep.Emit(Op::kMaxPool, node.inputs, pool));
  sweep.Replace(node, y);
  return absl::OkStatus();
}

}  // namespace

absl::Status Raise(Graph& graph) {
  return Sweep(graph).Run({RaiseActivation, RaiseLayerNorm, RaiseAttention});
}

absl::Status RaisePatterns(Graph& graph) {
  RETURN_IF_ERROR(Simplify(graph));
  RETURN_IF_ERROR(FoldConstants(graph));
  RETURN_IF_ERROR(Sweep(graph).Run({RaiseActivation, RaiseLayerNormForGradient,
                                    RaiseAttentionForGradient, KeepArgmax}));
  // Raising leaves reshapes and transposes behind, which may cancel now.
  RETURN_IF_ERROR(Simplify(graph));
  graph.Compact();
  return absl::OkStatus();
}

}  // namespace gpupool::engine
