// Recognises expressions that exporters write as many nodes and replaces each
// by the single node that has a fast kernel and its own gradient:
//   activations  any expression of one value and numbers that agrees with a
//                known function at all sample points: GELU (erf and tanh),
//                SiLU, hard swish, hard sigmoid, Mish, sigmoid, ReLU
//   layer norm   (x - mean) / sqrt(variance + epsilon) * gamma + beta over
//                the last axis
//   attention    softmax(scale * q k^T + mask) v
// Run Simplify first. An expression is not raised if other nodes read a value
// within it. Pure.
#pragma once

#include "absl/status/status.h"
#include "engine/graph/graph.h"
#include "engine/passes/rewrite/sweep.h"

namespace gpupool::engine {

// Raises patterns in programs that will not be differentiated.
absl::Status Raise(Graph& graph);

// Raises patterns in a forward graph before gradients are added: simplifies,
// raises, and lets the raised nodes keep what their gradients need. Declare the
// loss as an output first, because nodes that outputs and updates do not need
// are dropped. Values are renumbered: look them up by name afterwards.
absl::Status RaisePatterns(Graph& graph);

// The rules, one for each family. Those with ForGradient are for graphs that
// will be differentiated.
absl::Status RaiseActivation(Sweep& sweep, Node& node);
absl::Status RaiseLayerNorm(Sweep& sweep, Node& node);
absl::Status RaiseLayerNormForGradient(Sweep& sweep, Node& node);
absl::Status RaiseAttention(Sweep& sweep, Node& node);
absl::Status RaiseAttentionForGradient(Sweep& sweep, Node& node);

}  // namespace gpupool::engine
