// Adds values and nodes to a graph with their types inferred and checked.
// Not thread-safe; does not own the graph.
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

class GraphBuilder {
 public:
  // Continues `graph`, which must outlive the builder and be changed by
  // nobody else meanwhile.
  explicit GraphBuilder(Graph* graph);

  // The layer that following nodes stem from; errors begin with its name.
  void SetSource(absl::string_view source, int region);
  // What following intermediate values count as.
  void SetMemoryClass(MemoryClass memory_class) {
    memory_class_ = memory_class;
  }
  // The stage of following nodes; outputs of load nodes are derived values.
  void SetStage(Stage stage) { stage_ = stage; }

  // The value of that name when it exists with the same kind and type;
  // otherwise adds it. InvalidArgument when the name is taken differently.
  absl::StatusOr<ValueId> Input(absl::string_view name, TensorType type);
  absl::StatusOr<ValueId> Persistent(absl::string_view name, TensorType type,
                                     MemoryClass memory_class);
  // One number per element, or one number that fills the value.
  ValueId Constant(TensorType type, std::vector<double> numbers);

  // Adds a node; returns its outputs. InvalidArgument as InferTypes, with the
  // source's name in front.
  absl::StatusOr<ValueIds> Emit(Op op, absl::Span<const ValueId> inputs,
                                Attributes attributes = {});
  // The same for the first output.
  absl::StatusOr<ValueId> EmitOne(Op op, absl::Span<const ValueId> inputs,
                                  Attributes attributes = {});
  // Declares that `value`, an output of the last emitted node, overwrites
  // `persistent`. Types must agree.
  absl::Status Update(ValueId value, ValueId persistent);

  const Value& value(ValueId id) const { return graph_->value(id); }
  const Shape& shape(ValueId id) const { return value(id).shape; }
  Graph& graph() { return *graph_; }

 private:
  absl::StatusOr<ValueId> Named(Value value);
  // Adds the value under a name that nothing else has.
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
