// From an ONNX file to a graph for concrete sizes. Pure functions; usable from
// any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/import/layer_spec.h"
#include "engine/import/onnx/file/onnx_file.h"
#include "engine/import/onnx/graph/node_context.h"

namespace gpupool::engine::onnx_import {

struct OnnxBuildOptions {
  // Size of the first dimension of inputs where it has a name that is not in
  // `dimensions`, or no size at all; but for unbatched_inputs.
  int64_t batch = 1;
  // Sizes of named dimensions.
  absl::flat_hash_map<std::string, int64_t> dimensions;
  absl::flat_hash_set<std::string> unbatched_inputs;
  // Batch norm and dropout behave as in training.
  bool training = false;
  // input.scale and input.shift, shaped as one example, are applied to the
  // first input, which must be floating.
  bool input_scaling = false;
  // Inputs whose numbers are given: they are no inputs of the graph, and what
  // depends on nothing else is computed at import.
  absl::flat_hash_map<std::string, HostTensor> bound;
  // Whole shapes of inputs; they win over all other sizes.
  absl::flat_hash_map<std::string, Shape> input_shapes;
  // Inputs that are sequences: one entry per element, which becomes an input
  // "<name>[<position>]". An optional tensor has length 1 or 0; -1 is an
  // optional sequence that is not there.
  absl::flat_hash_map<std::string, int> sequence_lengths;
};

// The forward graph; no outputs are declared. Weights are persistent values
// with the names of OnnxFile::stored. Outputs that are sequences become one
// port per element, "<name>[<position>]".
//   INVALID_ARGUMENT     a node cannot work as it is, or a size is missing
//   UNIMPLEMENTED        operators or forms of them that are not supported
//   FAILED_PRECONDITION  shapes depend on numbers of inputs: NeededInputs
absl::StatusOr<ModelGraph> ImportOnnx(const OnnxFile& file,
                                      const OnnxBuildOptions& options);

// The inputs that a failed import asks to be bound; empty for other errors.
std::vector<std::string> NeededInputs(const absl::Status& status);

// Unimplemented with all nodes whose operators are not supported.
absl::Status CheckOperators(const OnnxFile& file);

}  // namespace gpupool::engine::onnx_import
