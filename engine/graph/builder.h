// Adds values and nodes to a graph, and infers and checks their types. Not
// thread-safe; does not own the graph.
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

class GraphBuilder {
 public:
  // Continues `graph`, which must outlive the builder. Nobody else may change
  // it meanwhile.
  explicit GraphBuilder(Graph* graph);

  // Sets the layer of the nodes that follow. Errors begin with its name.
  void SetSource(absl::string_view source, int region);
  // Sets the memory class of the intermediate values that follow.
  void SetMemoryClass(MemoryClass memory_class) {
    memory_class_ = memory_class;
  }
  // Sets the stage of the nodes that follow. Outputs of load nodes are derived
  // values.
  void SetStage(Stage stage) { stage_ = stage; }

  // Returns the value of that name if it exists with the same kind and type,
  // otherwise adds it. INVALID_ARGUMENT when the name has another kind or type.
  absl::StatusOr<ValueId> Input(absl::string_view name, TensorType type);
  absl::StatusOr<ValueId> Persistent(absl::string_view name, TensorType type,
                                     MemoryClass memory_class);
  // Gives a value another name. Its old one is free afterwards.
  // INVALID_ARGUMENT when the new name is taken.
  absl::Status Rename(ValueId id, const std::string& name);
  // Adds a constant: one number for each element, or one number that fills it.
  ValueId Constant(TensorType type, std::vector<double> numbers);

  // Adds a node and returns its outputs. INVALID_ARGUMENT as InferTypes, with
  // the source's name in front.
  absl::StatusOr<ValueIds> Emit(Op op, absl::Span<const ValueId> inputs,
                                Attributes attributes = {});
  // Adds a node and returns its first output.
  absl::StatusOr<ValueId> EmitOne(Op op, absl::Span<const ValueId> inputs,
                                  Attributes attributes = {});
  // Declares that `value`, an output of the last emitted node, overwrites
  // `persistent`. Their types must be equal.
  absl::Status Update(ValueId value, ValueId persistent);

  const Value& value(ValueId id) const { return graph_->value(id); }
  const Shape& shape(ValueId id) const { return value(id).shape; }
  Graph& graph() { return *graph_; }

 private:
  absl::StatusOr<ValueId> Named(Value value);
  // Adds the value under a name that is unique in the graph.
  ValueId AddFresh(absl::string_view what, Value value);

  Graph* graph_;
  std::string source_;
  int region_ = -1;
  Stage stage_ = Stage::kStep;
  MemoryClass memory_class_ = MemoryClass::kActivation;
  int64_t next_name_ = 0;
  absl::flat_hash_map<std::string, ValueId> names_;
};

}  // namespace gpupool::engine
