// One walk over the nodes in order that rewrites as it goes: what a rule sees
// before it is already rewritten. Internal to engine/passes. Not thread-safe.
//
// A rule gets the next node with its inputs up to date. It may change the node,
// emit others before it, or replace its outputs by other values; the sweep
// keeps count of readers. Nodes that lose their last reader are dropped at the
// end.
#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/graph/builder.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

class Sweep {
 public:
  using Rule = absl::Status (*)(Sweep&, Node&);

  // Until Run is over the graph is the sweep's.
  explicit Sweep(Graph& graph);

  // Applies the rules to each node in turn, until one has replaced it.
  absl::Status Run(std::initializer_list<Rule> rules);
  // Whether a rule has changed anything so far.
  bool changed() const { return changed_; }

  const Value& value(ValueId id) const { return graph_.value(id); }
  const Shape& shape(ValueId id) const { return value(id).shape; }
  // The node that writes `id`; nullptr when there is none, or when one of its
  // inputs was overwritten since, so that nobody else may read it here. Valid
  // until a node is emitted.
  const Node* Producer(ValueId id) const;
  // The same, nullptr unless it is of that op.
  const Node* Producer(ValueId id, Op op) const;
  // Whether the node under the rule is the only reader, reads it once, and it
  // is no output of the graph.
  bool IsOnlyReaderOf(ValueId id) const { return uses_[At(id)] == 1; }
  // How often the value is read; outputs of the graph count once more.
  int uses(ValueId id) const { return uses_[At(id)]; }
  // The number that a constant consists of.
  std::optional<double> Number(ValueId id) const;

  // Adds a node before the one under the rule, with its source and stage.
  absl::StatusOr<ValueId> Emit(Op op, const ValueIds& inputs,
                               Attributes attributes = {});
  ValueId Scalar(DType dtype, double number) {
    return Constant({dtype, {}}, {number});
  }
  // One number per element, or one that fills the value.
  ValueId Constant(TensorType type, std::vector<double> numbers);
  // x in another shape: x itself when it has it.
  absl::StatusOr<ValueId> Reshape(ValueId x, const Shape& shape);
  // Readers of the node's only output read `with` from now on; the node goes.
  // The new value has the same type. A no-op when the value is an update.
  void Replace(Node& node, ValueId with);
  // The rule has changed the node's op, inputs or attributes, its outputs keep
  // their types.
  void MarkChanged() { changed_ = true; }

 private:
  static size_t At(ValueId id) { return static_cast<size_t>(id.index); }
  ValueId Latest(ValueId id) const;
  void Note(const Node& node);
  absl::Status Visit(Node node, std::initializer_list<Rule> rules);
  void Finish();

  Graph& graph_;
  std::vector<Node> old_;
  GraphBuilder builder_;
  std::vector<int> updaters_;
  std::vector<int> uses_;
  std::vector<int> producers_;  // in the new list
  std::vector<ValueId> replaced_;
  int position_ = 0;  // of the node under the rule, in the old list
  bool taken_ = false;
  bool changed_ = false;
};

}  // namespace gpupool::engine
