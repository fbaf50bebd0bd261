// The intermediate representation: values in single assignment, nodes in
// execution order. A Graph is a plain copyable value without locks. Threads may
// share it while nobody changes it.
//
// Invariants (checked by Verify):
//  1. A value is written by exactly one node, or by none if it is an input, a
//     constant or a persistent value.
//  2. Nodes are in execution order: a value is written before it is read.
//  3. Types of outputs follow the op's shape rule.
//  4. Load nodes come first and read only persistent values, constants and
//     derived values.
//  5. A value that overwrites another's bytes (alias kUpdate or kInPlace) has
//     the same type, and every other reader of the old value runs before its
//     producer.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/graph/attributes.h"
#include "engine/graph/ops.h"
#include "engine/tensor/dtype.h"
#include "engine/tensor/shape.h"

namespace gpupool::engine {

struct ValueId {
  int32_t index = -1;

  bool valid() const { return index >= 0; }
  friend auto operator<=>(const ValueId&, const ValueId&) = default;
};

enum class ValueKind : uint8_t {
  kInput,         // given with every run
  kConstant,      // part of the graph
  kPersistent,    // a named weight or state, shared by all programs of a model
  kDerived,       // written by a load node; lives as long as steps read it
  kIntermediate,  // lives within a run; may be an output of the graph
};

// The class of a value's bytes in plans and in the allocator's labels.
enum class MemoryClass : uint8_t {
  kIo,         // inputs and constants
  kWeight,     // trainable
  kState,      // running statistics, input scaling
  kOptimizer,  // momentum and moments
  kGradient,
  kActivation,
};

enum class AliasKind : uint8_t {
  kNone,
  kView,     // other shape or layout of the same bytes; its node does no work
  kInPlace,  // overwrites the bytes of one of its producer's inputs
  // Overwrites a persistent value, which is read again in the next run.
  kUpdate,
};

struct Alias {
  AliasKind kind = AliasKind::kNone;
  ValueId of;
};

struct Value {
  ValueId id;
  std::string name;  // unique in the graph
  DType dtype = DType::kFloat32;
  Shape shape;  // static, batch included
  ValueKind kind = ValueKind::kIntermediate;
  MemoryClass memory_class = MemoryClass::kActivation;
  Layout layout = Layout::kRowMajor;
  Alias alias;
  // The numbers of a constant: one for each element in row-major order, or a
  // single number that fills the value.
  std::vector<double> constant;

  TensorType type() const { return {dtype, shape}; }
  uint64_t bytes() const { return shape.bytes(dtype); }
};

enum class Stage : uint8_t {
  kLoad,  // once, after persistent values are set or changed
  kStep,  // in every run
};

using ValueIds = std::vector<ValueId>;

struct Node {
  Op op = Op::kAdd;
  Attributes attributes;
  ValueIds inputs;
  ValueIds outputs;
  // The layer that it comes from, for messages and profiles.
  std::string source;
  int region = 0;  // index of that layer; -1 outside the model
  Stage stage = Stage::kStep;

  // Returns the attributes as T. Aborts if the op carries another type.
  template <typename T>
  const T& get() const {
    return std::get<T>(attributes);
  }
};

struct GraphOutput {
  std::string name;
  ValueId value;
};

class Graph {
 public:
  // Appends a value and returns its id, which the graph sets.
  ValueId AddValue(Value value);
  void AddNode(Node node) { nodes_.push_back(std::move(node)); }
  // Adds an output; the value may be of any kind.
  void AddOutput(absl::string_view name, ValueId value);

  absl::Span<const Value> values() const { return values_; }
  absl::Span<const Node> nodes() const { return nodes_; }
  absl::Span<const GraphOutput> outputs() const { return outputs_; }

  // Return the value of `id`, which must be of this graph.
  const Value& value(ValueId id) const {
    return values_[static_cast<size_t>(id.index)];
  }
  Value& mutable_value(ValueId id) {
    return values_[static_cast<size_t>(id.index)];
  }
  // Give passes access. They must keep the order and the links; Verify checks
  // them.
  std::vector<Node>& mutable_nodes() { return nodes_; }
  std::vector<GraphOutput>& mutable_outputs() { return outputs_; }

  // Returns the value of that name by linear search; null when absent.
  const Value* FindValue(absl::string_view name) const;
  // Returns the value of the output of that name; nothing when absent.
  std::optional<ValueId> FindOutput(absl::string_view name) const;

  // Return the types of a node's inputs and outputs.
  TensorTypes InputTypes(const Node& node) const;
  TensorTypes OutputTypes(const Node& node) const;

  // Drops values that no node, output or alias uses, except inputs and
  // persistent values, and renumbers the rest in order.
  void Compact();

 private:
  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<GraphOutput> outputs_;
};

// The writer and the readers of each value, by position in nodes(). A snapshot:
// any change to the graph invalidates it.
class GraphIndex {
 public:
  explicit GraphIndex(const Graph& graph);

  // Returns the position of the node that writes the value; -1 when there is
  // none.
  int producer(ValueId id) const {
    return producers_[static_cast<size_t>(id.index)];
  }
  // Returns the readers' positions in rising order. A node that reads a value
  // twice is listed twice.
  absl::Span<const int> readers(ValueId id) const {
    return readers_[static_cast<size_t>(id.index)];
  }
  bool is_output(ValueId id) const {
    return outputs_[static_cast<size_t>(id.index)];
  }

 private:
  std::vector<int> producers_;
  std::vector<std::vector<int>> readers_;
  std::vector<bool> outputs_;
};

// Returns whether row-major and channels-last give the same bytes: the 4-D
// `shape` has one channel, or one cell in each channel.
bool SameBytesInAnyLayout(const Shape& shape);

// Return the FLOPs of one node and of all step nodes.
uint64_t NodeFlops(const Graph& graph, const Node& node);
uint64_t GraphFlops(const Graph& graph);

}  // namespace gpupool::engine
