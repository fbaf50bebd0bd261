// A walk over the nodes in order that rewrites them. Everything before the
// current node is already rewritten. Internal to engine/passes. Not
// thread-safe.
//
// A rule gets the next node with updated inputs. It may change the node, emit
// others before it, or replace its outputs by other values. The sweep counts
// readers. Nodes that lose their last reader are dropped at the end.
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

  // Takes over the graph until Run has returned.
  explicit Sweep(Graph& graph);

  // Applies the rules to each node in order, until one has replaced it.
  absl::Status Run(std::initializer_list<Rule> rules);
  // Returns whether a rule has changed anything so far.
  bool changed() const { return changed_; }

  const Value& value(ValueId id) const { return graph_.value(id); }
  const Shape& shape(ValueId id) const { return value(id).shape; }
  // Returns the node that writes `id`. Returns null when there is none, or when
  // one of its inputs has been overwritten, so that it cannot be repeated here.
  // Valid until a node is emitted.
  const Node* Producer(ValueId id) const;
  // Returns the producer if it is of that op, else null.
  const Node* Producer(ValueId id, Op op) const;
  // Returns whether the current node is the only reader, reads the value once,
  // and the value is no output of the graph.
  bool IsOnlyReaderOf(ValueId id) const { return uses_[At(id)] == 1; }
  // Returns how often the value is read; being an output counts as one read.
  int uses(ValueId id) const { return uses_[At(id)]; }
  // Returns the number if the value is a constant of equal numbers.
  std::optional<double> Number(ValueId id) const;

  // Adds a node before the current one, with its source and stage.
  absl::StatusOr<ValueId> Emit(Op op, const ValueIds& inputs,
                               Attributes attributes = {});
  ValueId Scalar(DType dtype, double number) {
    return Constant({dtype, {}}, {number});
  }
  // Adds a constant: one number for each element, or one that fills it.
  ValueId Constant(TensorType type, std::vector<double> numbers);
  // Returns x in another shape; x itself when the shapes are equal.
  absl::StatusOr<ValueId> Reshape(ValueId x, const Shape& shape);
  // Redirects readers of the node's only output to `with`, which must have the
  // same type, and removes the node. Does nothing when the output is an update.
  void Replace(Node& node, ValueId with);
  // Records that the rule has changed the node's op, inputs or attributes. Its
  // outputs must keep their types.
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
  std::vector<int> producers_;  // positions in the new list
  std::vector<ValueId> replaced_;
  int position_ = 0;  // the current node's, in the old list
  bool taken_ = false;
  bool changed_ = false;
};

}  // namespace gpupool::engine
