// Names of layers, and which layers read which by name. Pure functions. Errors
// are INVALID_ARGUMENT and name the layer.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace gpupool::v1 {
class Layer;
class ModelSpec;
}  // namespace gpupool::v1

namespace gpupool::engine {

// Returns the layer's kind as in the proto: "conv2d".
std::string LayerKindName(const v1::Layer& layer);

// Returns the layer's own name, or its kind and position ("conv2d_0").
std::string LayerName(const v1::Layer& layer, int position);

// Returns whether an `embedding` reads the model's input, which then has whole
// numbers.
bool ReadsTokens(const v1::ModelSpec& spec);

// Checks that names are well-formed and unique, that `input` and `from` name
// earlier layers or "input", and that every output but the last is read.
absl::Status CheckReferences(const v1::ModelSpec& spec);

}  // namespace gpupool::engine
