// Imports an ONNX file as a graph of concrete sizes. Pure functions, usable
// from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/import/onnx/file/onnx_file.h"
#include "engine/import/onnx/graph/node_context.h"
#include "engine/model/layer_spec.h"

namespace gpupool::engine::onnx_import {

struct OnnxBuildOptions {
  // Size of the first dimension of inputs, where it has no size and no name in
  // `dimensions`. Not used for unbatched_inputs.
  int64_t batch = 1;
  // Sizes of named dimensions.
  absl::flat_hash_map<std::string, int64_t> dimensions;
  absl::flat_hash_set<std::string> unbatched_inputs;
  // Whether batch norm and dropout behave as in training.
  bool training = false;
  // Whether inputs and outputs of 16 bits become float32.
  bool wide_ports = false;
  // Whether input.scale and input.shift, shaped as one example, are applied to
  // the first input, which must be floating.
  bool input_scaling = false;
  // Inputs with given numbers. They are no inputs of the graph, and values that
  // depend only on them and on constants are computed at import.
  absl::flat_hash_map<std::string, HostTensor> bound;
  // The answers after which a stage begins (engine/model/stage.h). Nothing:
  // values that the host must know must follow from constants and `bound`.
  std::optional<std::vector<int64_t>> answers;
  // Whole shapes of inputs. They override all other sizes.
  absl::flat_hash_map<std::string, Shape> input_shapes;
  // Lengths of inputs that are sequences. Each element becomes an input
  // "<name>[<position>]". An optional tensor has length 1 or 0. -1 is an
  // optional sequence that is absent.
  absl::flat_hash_map<std::string, int> sequence_lengths;
};

// Builds the forward graph and declares no outputs. Weights are persistent
// values with the names of OnnxFile::stored. An output that is a sequence
// becomes one port per element, "<name>[<position>]". Numbers of 16 bits are
// computed in float32 (widen_model.h), and so are weights. With `answers` the
// graph may be a stage (ModelGraph::stage_end).
//   INVALID_ARGUMENT     a node cannot work, or a size is missing
//   UNIMPLEMENTED        an operator or a form of it is not supported
//   FAILED_PRECONDITION  shapes depend on numbers of inputs: see NeededInputs
absl::StatusOr<ModelGraph> ImportOnnx(const OnnxFile& file,
                                      const OnnxBuildOptions& options);

// Returns the inputs that a failed import needs to be bound. Empty for other
// errors.
std::vector<std::string> NeededInputs(const absl::Status& status);

// Returns UNIMPLEMENTED with all nodes whose operators are not supported.
absl::Status CheckOperators(const OnnxFile& file);

}  // namespace gpupool::engine::onnx_import
