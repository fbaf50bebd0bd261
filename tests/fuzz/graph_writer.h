// A random ONNX model that grows node by node. A recipe writes a node; the node
// stays if the importer accepts the model with it, and its outputs may become
// inputs of later nodes. So the importer itself says types and shapes, and
// nearly every finished model can be run.
//
// Belongs to one thread.
#pragma once

#include <onnx/onnx_pb.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/fuzz/dice.h"
#include "tests/fuzz/random_tensors.h"

namespace gpupool::engine::fuzz {

// A value that nodes may read.
struct Pooled {
  std::string name;
  int type = 0;  // TensorProto.DataType
  Dims dims;
  bool read = false;

  int rank() const { return static_cast<int>(dims.size()); }
};

class GraphWriter {
 public:
  // Called with a model before it is imported.
  using Observer = std::function<void(const onnx::ModelProto&)>;
  using Recipe = std::function<void(GraphWriter&)>;

  GraphWriter(uint64_t seed, Observer observer);
  // Starts from a model whose inputs and initializers have types and shapes.
  GraphWriter(uint64_t seed, Observer observer, onnx::ModelProto model);

  Dice& dice() { return dice_; }
  int opset() const { return opset_; }
  onnx::GraphProto& graph() { return *model_.mutable_graph(); }

  // Runs the recipe and imports. Takes everything back if the recipe added no
  // node or the importer refuses. Returns whether the nodes stay.
  bool Try(const Recipe& recipe);
  // Declares one to four outputs, preferring values that nothing reads, and
  // returns the model.
  onnx::ModelProto Finish();

  // The functions below are for recipes.

  // Returns an existing value of one of the types, or a fresh one.
  Pooled Pick(const std::vector<int>& types);
  // Returns an existing value with a rank in [low, high], or a fresh one.
  Pooled PickRank(const std::vector<int>& types, int low, int high);
  // Returns a new input, initializer or constant of random numbers.
  Pooled Fresh(int type, const Dims& dims);
  // Returns a value of these integers that is known at import.
  std::string Integers(const std::vector<int64_t>& numbers);
  // Returns a value known at import with these numbers.
  std::string Known(int type, const Dims& dims,
                    const std::vector<double>& numbers);
  // Adds a node with `outputs` new outputs, and returns it. The pointer lives
  // until the next node.
  onnx::NodeProto* Node(const std::string& op,
                        const std::vector<std::string>& inputs,
                        int outputs = 1);
  std::string NewName() { return "v" + std::to_string(next_name_++); }

 private:
  bool AcceptNewNodes(int first_node);
  void Stored(onnx::TensorProto tensor);

  Dice dice_;
  Observer observer_;
  const uint64_t seed_;
  int opset_ = 17;
  int next_name_ = 0;
  onnx::ModelProto model_;
  std::vector<Pooled> pool_;
};

// Sets attributes of a node.
void Set(onnx::NodeProto* node, const std::string& name, int64_t value);
void SetFloat(onnx::NodeProto* node, const std::string& name, double value);
void SetText(onnx::NodeProto* node, const std::string& name,
             const std::string& value);
void SetInts(onnx::NodeProto* node, const std::string& name,
             const std::vector<int64_t>& values);

}  // namespace gpupool::engine::fuzz
