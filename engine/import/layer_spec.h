// From a layer spec to a forward graph. Pure functions. Errors of the spec
// are InvalidArgument and begin with the layer's name.
//
// The names made here are the contract between programs, checkpoints and
// served versions: "<layer>.weight", "<layer>.bias", "<layer>.running_mean",
// "<layer>.running_var", "input.scale", "input.shift".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "engine/graph/graph.h"

namespace gpupool::v1 {
class Layer;
class ModelSpec;
}  // namespace gpupool::v1

namespace gpupool::engine {

// How a persistent value begins.
struct Initializer {
  enum class Kind : uint8_t {
    kConstant,  // every element is `value`
    kUniform,   // U(-bound, bound)
    kStored,    // ModelSource::ReadStored has it
  };
  Kind kind = Kind::kConstant;
  double value = 0;
  double bound = 0;
};

// One named weight or state tensor of a program.
struct PersistentSpec {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  // kWeight: trainable; kState: running statistics and input scaling;
  // kOptimizer: "<weight>/momentum", "<weight>/adam.m", "<weight>/adam.v".
  MemoryClass memory_class = MemoryClass::kWeight;
  Initializer initializer;
};

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
  Shape shape;          // whole, batch included
  bool batched = true;  // dimension 0 is the batch

  // One example: without the batch dimension where there is one.
  Shape example() const;
};

// A graph and what one must know to feed it.
struct ModelGraph {
  Graph graph;
  // In the order of the layers, each weight once; optimizer state last.
  std::vector<PersistentSpec> persistents;
  std::vector<LayerInfo> layers;
  std::vector<ModelPort> inputs;   // at least one
  std::vector<ModelPort> outputs;  // at least one
  // Inputs of the model, not of the graph: their numbers are in it. `value` is
  // none.
  std::vector<ModelPort> bound;
  // What the user should know about the model.
  std::vector<std::string> warnings;
  Shape input_shape;   // per example, of the first input
  Shape output_shape;  // per example, of the first output
  ValueId output;      // the first

  // Numbers in trainable persistents.
  uint64_t parameters() const;
};

struct BuildOptions {
  int64_t batch = 1;
  // ONNX: sizes of named dimensions beside those of the spec; they win.
  absl::flat_hash_map<std::string, int64_t> dimensions;
  // ONNX: numbers of inputs that are computed with when the graph is made, and
  // are no inputs of it.
  absl::flat_hash_map<std::string, std::vector<double>> bound;
  // Batch norm uses and updates statistics, dropout drops.
  bool training = false;
  // input.scale and input.shift, shaped as one example, are applied first.
  bool input_scaling = false;
};

inline constexpr int kMaxLayers = 10000;

// The forward graph: input "input" float32 [batch, input_shape...]; training
// adds "seed" and "step" (int64 []) when a layer drops out. No outputs are
// declared.
absl::StatusOr<ModelGraph> BuildModel(const v1::ModelSpec& spec,
                                      const BuildOptions& options);

// The layer's own name, or its kind and position ("conv2d_0").
std::string LayerName(const v1::Layer& layer, int position);

}  // namespace gpupool::engine
