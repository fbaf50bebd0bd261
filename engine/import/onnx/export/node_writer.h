// Writes the nodes and initializers of an exported graph, layer by layer.
//
// Names of nodes and values of a layer begin with the layer's name. Other names
// contain '/' or ':', which names of layers cannot.
//
// Thread-safety: one thread at a time. Lives during one export.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "engine/model/model_source.h"
#include "engine/tensor/shape.h"

namespace onnx {
class GraphProto;
class NodeProto;
class TensorProto;
}  // namespace onnx

namespace gpupool::engine::onnx_import {

// Add an attribute to a node.
void SetInt(onnx::NodeProto& node, const char* name, int64_t value);
void SetInts(onnx::NodeProto& node, const char* name,
             const std::vector<int64_t>& values);
void SetFloat(onnx::NodeProto& node, const char* name, double value);

class NodeWriter {
 public:
  // Both arguments must outlive the object.
  NodeWriter(onnx::GraphProto& graph, const std::vector<WeightTensor>& weights);

  // Begins a layer. The functions below without a name use its name.
  void Begin(absl::string_view layer) { layer_ = std::string(layer); }

  // Adds a node with one output, "<name>:0".
  onnx::NodeProto& Node(const char* op, const std::string& name,
                        const std::vector<std::string>& inputs);
  // Adds the layer's only or last node.
  onnx::NodeProto& Node(const char* op, const std::vector<std::string>& inputs);
  // Adds an inner node of the layer, "<layer>/<part>". Part returns its output.
  onnx::NodeProto& PartNode(const char* op, const char* part,
                            const std::vector<std::string>& inputs);
  std::string Part(const char* op, const char* part,
                   const std::vector<std::string>& inputs);

  // Add a weight as an initializer, once, and return its name: the weight
  // `name` with the name `as`, or "<layer>.<what>" with its own.
  std::string Weight(const std::string& name, const std::string& as);
  std::string LayerWeight(const char* what);
  // Adds a float32 scalar of the layer.
  std::string Number(const char* part, double value);
  // Add int64 numbers as an initializer of the layer: a list, or a scalar.
  std::string Integers(const char* part, const std::vector<int64_t>& numbers);
  std::string Integer(const char* part, int64_t number);
  // Adds the numbers 0, 1, ... in this shape as the initializer `name`.
  void Count(const std::string& name, const Shape& shape);

  // Returns whether something of this name has been marked before. Marks it.
  bool WasWritten(const std::string& name) {
    return !written_.insert(name).second;
  }

  // Returns the first missing weight, or "".
  const std::string& missing() const { return missing_; }

 private:
  onnx::TensorProto& IntegerTensor(const std::string& name);

  onnx::GraphProto& graph_;
  absl::flat_hash_map<std::string, const WeightTensor*> weights_;
  absl::flat_hash_set<std::string> written_;
  std::string layer_;
  std::string missing_;
};

}  // namespace gpupool::engine::onnx_import
