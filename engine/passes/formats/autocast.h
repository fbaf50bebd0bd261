// Mixed precision. The products of a float32 graph and the ops between them run
// in a 16-bit type, the rest stays float32, and casts are inserted where the
// two meet. Run it on a forward graph before it is differentiated. Gradients
// then have the types of their values, and the gradients of weights become
// float32 again through the gradient of the cast. Pure.
//
// The types of ops, after PyTorch's autocast lists (docs/source/amp.rst):
//   16 bits  matmul, batch_matmul, convolutions, attention
//   float32  losses, softmax, sums, means, products and running sums, powers,
//            exponentials and logarithms, reciprocals, tan, asin, acos, sinh,
//            cosh, LRN, input scaling, running statistics, and every op that
//            is not named here
//   as its operands: activations, sums and differences, pools, norms,
//            dropout, movement, gathers and scatters. The widest of the
//            operands decides; weights and constants take the others' type.
// Two rules go beyond PyTorch:
// - Rows of a weight that indices choose (embeddings) count as 16-bit numbers,
//   so that a transformer's residuals have 16 bits, too.
// - Norms take 16-bit numbers but compute in float32, which their parameters
//   and statistics have.
//
// Weights, states, inputs and outputs of the graph keep their types; a weight
// is cast once. Nodes with floating-point numbers of another type than float32
// are not changed.
#pragma once

#include "absl/status/status.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

// Applies mixed precision; `low` is kBFloat16 or kFloat16.
absl::Status Autocast(Graph& graph, DType low);

}  // namespace gpupool::engine
