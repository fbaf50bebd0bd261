#include "engine/passes/raise.h"

#include "engine/base/status_macros.h"
#include "engine/passes/simplify.h"

namespace gpupool::engine {

absl::Status Raise(Graph& graph) {
  return Sweep(graph).Run({RaiseActivation, RaiseLayerNorm, RaiseAttention});
}

absl::Status RaisePatterns(Graph& graph) {
  RETURN_IF_ERROR(Simplify(graph));
  RETURN_IF_ERROR(Sweep(graph).Run(
      {RaiseActivation, RaiseLayerNormForGradient, RaiseAttentionForGradient}));
  RETURN_IF_ERROR(Simplify(graph));
  graph.Compact();
  return absl::OkStatus();
}

}  // namespace gpupool::engine
