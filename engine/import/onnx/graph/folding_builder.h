// A graph builder that computes at once everything that depends only on
// constants, with the reference kernels. It also tells the numbers of any value
// that does not depend on an input of the graph.
//
// A budget bounds the computation. Beyond it, nodes are added to the graph
// uncomputed, and requests for numbers fail.
//
// Thread-safety: one thread at a time. Does not own the graph.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/graph/builder.h"
#include "engine/import/onnx/graph/import_budget.h"
#include "engine/import/onnx/graph/node_context.h"

namespace gpupool::engine::onnx_import {

// Most elements of a result that is computed at import.
inline constexpr int64_t kMaxFoldedElements = int64_t{1} << 22;
// Most nodes of one graph.
inline constexpr size_t kMaxGraphNodes = size_t{1} << 21;

class FoldingBuilder {
 public:
  // Reads the stored numbers of a persistent value.
  using ReadPersistent =
      std::function<absl::StatusOr<HostTensor>(const std::string& name)>;

  FoldingBuilder(Graph* graph, ImportBudget budget,
                 ReadPersistent read_persistent);

  GraphBuilder& builder() { return builder_; }
  const Value& value(ValueId id) const { return builder_.value(id); }
  ImportBudget& budget() { return budget_; }

  // Adds a constant. `tensor` has one number per element, or one number for
  // all. Its bytes are taken from the budget without a check.
  ValueId Constant(HostTensor tensor);

  // Adds the node, or computes its outputs as constants. Outputs without
  // elements are always constants. INVALID_ARGUMENT also when the graph would
  // hold too many bytes.
  absl::StatusOr<ValueIds> Emit(Op op, absl::Span<const ValueId> inputs,
                                Attributes attributes);
  // Does the same, but leaves a node of constants to the passes, which see in
  // it how the result is made.
  absl::StatusOr<ValueIds> EmitUnfolded(Op op, absl::Span<const ValueId> inputs,
                                        Attributes attributes);

  // Returns the numbers of a value.
  //   FAILED_PRECONDITION  the value depends on inputs of the graph
  //   INVALID_ARGUMENT     over the budget, or the computation fails
  absl::StatusOr<HostTensor> Numbers(ValueId id);
  // Returns whether the value depends on no input.
  bool HasNumbers(ValueId id);
  // Returns the names of the graph inputs that the value depends on, in the
  // graph's order.
  std::vector<std::string> InputsOf(ValueId id);

  // Takes element operations from the budget. INVALID_ARGUMENT when too few are
  // left.
  absl::Status Spend(int64_t work) { return budget_.Compute(work); }

 private:
  using Elements = std::vector<double>;

  struct NewNode {
    Op op;
    absl::Span<const ValueId> inputs;
    bool fold;
  };
  absl::StatusOr<ValueIds> Add(const NewNode& added, Attributes attributes);
  // Turns an output of a removed node into a constant. Keeps its id.
  void MakeConstant(ValueId id, Elements numbers);
  bool DependsOnInput(ValueId id) const;
  // Returns the positions of the nodes that the value depends on, in rising
  // order.
  std::vector<size_t> Ancestors(ValueId id);
  // Updates producers_ and depends_on_input_.
  void IndexNewNodes();
  absl::StatusOr<const Elements*> Compute(ValueId id);
  absl::Status ComputeLeaf(ValueId id);
  absl::Status RunNode(const Node& node, std::vector<Elements>& outputs);
  // Returns the node's cost in element operations.
  int64_t Work(const Node& node) const;
  // Returns the bytes of an added node, including its outputs.
  uint64_t Bytes(const Node& node) const;

  Graph* graph_;
  GraphBuilder builder_;
  ImportBudget budget_;
  ReadPersistent read_persistent_;
  size_t indexed_nodes_ = 0;
  absl::flat_hash_map<int32_t, size_t> producers_;  // value -> node
  std::vector<bool> depends_on_input_;  // of indexed nodes, by value
  // Numbers that were requested, by value. Constants with one number are
  // expanded.
  absl::flat_hash_map<int32_t, Elements> computed_;
};

}  // namespace gpupool::engine::onnx_import
