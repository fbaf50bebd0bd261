// Tells which initializers of a file are buffers of the exported module rather
// than parameters: constant tables, such as sinusoids, rotary frequencies and
// causal masks. An ONNX file does not say which is which, so names, uses and
// numbers decide. Pure functions over a model that has passed CheckModel.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/import/onnx/file/external_files.h"

namespace onnx {
class ModelProto;
}

namespace gpupool::engine::onnx_import {

struct Buffer {
  std::string name;    // of an initializer of the main graph
  std::string reason;  // "it is a causal mask"
};

// Returns the floating initializers that look like buffers, in the file's
// order. The rules, of which the first that holds gives the reason:
//   name      the last part of a torch name: inv_freq, causal_mask, ...
//   shape     "*.bias" of shape [1, 1, n, n], GPT-2's causal mask
//   use       only as condition, comparand, bound, exponent or divisor; as the
//             single number of a Where or of a norm's epsilon; in both Sin and
//             Cos of a product
//   numbers   0 and numbers <= -10000, added to scores; a triangle of ones;
//             sines and cosines of rising positions
// A table that Gather reads, or that is added, is a parameter unless its
// numbers say otherwise: learned positions are such tables.
std::vector<Buffer> FindBuffers(const onnx::ModelProto& model,
                                const ExternalFiles& external);

}  // namespace gpupool::engine::onnx_import
