// Builds a forward graph from a layer spec. Pure functions. Errors of the spec
// are INVALID_ARGUMENT and begin with the layer's name.
//
// Programs, checkpoints and served versions rely on the names made here:
// "<layer>.weight", "<layer>.bias", "<layer>.running_mean",
// "<layer>.running_var", "input.scale", "input.shift".
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "engine/graph/graph.h"
#include "engine/model/layers/persistent_spec.h"
#include "engine/tensor/widened_type.h"

namespace gpupool::v1 {
class ModelSpec;
}  // namespace gpupool::v1

namespace gpupool::engine {

struct StageEnd;

struct LayerInfo {
  std::string name;
  std::string kind;    // as in the proto: "conv2d"
  Shape output_shape;  // per example
  uint64_t parameters = 0;
  uint64_t flops = 0;  // forward, per example
};

// An input or output of a model.
struct ModelPort {
  std::string name;
  ValueId value;
  DType dtype = DType::kFloat32;
  Shape shape;          // including the batch
  bool batched = true;  // whether dimension 0 is the batch
  // The type in the model's file, where it is one that `dtype` holds. Clients
  // use this type, programs use `dtype`.
  std::optional<WidenedType> declared;
  // ONNX only, of an output: the name of the Loop that stacks it, one row for
  // each iteration. Empty: no Loop does.
  std::string loop = {};

  // Returns the shape of one example, without the batch dimension if there is
  // one.
  Shape example() const;
};

// A graph with the descriptions needed to feed it.
struct ModelGraph {
  Graph graph;
  // In the order of the layers, with each weight once. Optimizer state comes
  // last.
  std::vector<PersistentSpec> persistents;
  std::vector<LayerInfo> layers;
  std::vector<ModelPort> inputs;   // at least one
  std::vector<ModelPort> outputs;  // at least one
  // Inputs of the model whose numbers are constants of the graph, so that they
  // are no inputs of it. `value` is invalid.
  std::vector<ModelPort> bound;
  // Remarks on the model for the user.
  std::vector<std::string> warnings;
  Shape input_shape;   // per example, of the first input
  Shape output_shape;  // per example, of the first output
  ValueId output;      // the first
  // If the graph is a stage before the last one: what the host does after it.
  // `outputs` are then those of the stage (stage.h).
  std::shared_ptr<const StageEnd> stage_end;

  // Returns the number of elements of trainable persistents.
  uint64_t parameters() const;
};

struct BuildOptions {
  int64_t batch = 1;
  // ONNX only: sizes of named dimensions. They override those of the spec.
  absl::flat_hash_map<std::string, int64_t> dimensions;
  // ONNX only: numbers of inputs that become constants of the graph and so are
  // no inputs of it.
  absl::flat_hash_map<std::string, std::vector<double>> bound;
  // Whether batch norm uses the batch's statistics and updates the running
  // ones, and dropout drops.
  bool training = false;
  // Whether input.scale and input.shift, shaped as one example, are applied
  // first.
  bool input_scaling = false;
  // ONNX only: whether inputs and outputs of 16 bits become float32, as
  // datasets and losses have them.
  bool wide_ports = false;
  // ONNX only: the answers after which the stage begins (stage.h). Nothing:
  // values that the host must know are refused unless inputs are not needed to
  // compute them.
  std::optional<std::vector<int64_t>> answers;
};

// Builds the forward graph. A layer reads the layer before it, or the earlier
// one that its `input` names. Its input is "input" [batch, input_shape...],
// int64 if an embedding reads it, else float32. Training adds "seed" and "step"
// (int64 []) when a layer drops out. Declares no outputs.
absl::StatusOr<ModelGraph> BuildModel(const v1::ModelSpec& spec,
                                      const BuildOptions& options);

}  // namespace gpupool::engine
