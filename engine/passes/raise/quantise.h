// Turns nets that were quantised as ONNX Runtime does it (QuantizeLinear and
// DequantizeLinear around the operators) into nets that compute with the codes.
// The importer makes several elementwise nodes of each of these operators. For
// inference programs on devices that prefer products of integers
// (DeviceBackend::PrefersIntegerProducts). Runs before passes that rearrange
// these nodes.
//
//   codes -> numbers                          becomes dequantize
//   numbers -> [relu, clip] -> codes          becomes quantize
//   dequantize -> conv2d -> codes             becomes quantized_conv2d
//   dequantize, dequantize -> sum -> codes    becomes quantized_add
//   dequantize -> max_pool, reshape, transpose, concat -> the same codes
//                                             becomes that op on the codes
//
// The last three may have a relu or clip, too, but not the last. A node stays
// in float32 if
//   - a scale or zero point of data is not one constant number,
//   - something else reads a number between its inputs and its codes, or that
//     is an output of the graph,
//   - weights are not int8 codes with zero point 0 and a scale for the tensor
//     or for each filter, known at load,
//   - its sums could be too large for 32 bits (kMaxCodeProducts).
#pragma once

#include "absl/status/status.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

absl::Status Quantise(Graph& graph);

}  // namespace gpupool::engine
