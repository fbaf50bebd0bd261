// What exporters write as many nodes becomes the one node that has a fast
// kernel and a gradient of its own:
//   activations  any expression of one value and numbers that agrees with a
//                known function wherever it is looked at: GELU (erf and tanh),
//                SiLU, hard swish, hard sigmoid, Mish, sigmoid, ReLU
//   layer norm   (x - mean) / sqrt(variance + epsilon) * gamma + beta over
//                the last axis
//   attention    softmax(scale * q k^T + mask) v
// Run Simplify before. Values within an expression that others read keep it
// from being raised. Pure.
#pragma once

#include "absl/status/status.h"
#include "engine/graph/graph.h"
#include "engine/passes/rewrite/sweep.h"

namespace gpupool::engine {

// For programs that are not differentiated any more.
absl::Status Raise(Graph& graph);

// For a forward graph whose gradients are still to be added, after its loss
// has been declared as an output: simplifies, raises, and lets the raised
// nodes keep what their gradients need. What the outputs and updates do not
// need is dropped and values are renumbered: look them up by name afterwards.
absl::Status RaisePatterns(Graph& graph);

// The rules, one per family; the latter for graphs to be differentiated.
absl::Status RaiseActivation(Sweep& sweep, Node& node);
absl::Status RaiseLayerNorm(Sweep& sweep, Node& node);
absl::Status RaiseLayerNormForGradient(Sweep& sweep, Node& node);
absl::Status RaiseAttention(Sweep& sweep, Node& node);
absl::Status RaiseAttentionForGradient(Sweep& sweep, Node& node);

}  // namespace gpupool::engine
