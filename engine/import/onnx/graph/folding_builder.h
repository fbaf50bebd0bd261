// A graph builder that computes at once whatever depends on constants only, by
// the reference kernels, and that can tell the numbers of any value that does
// not depend on an input of the graph.
//
// What is computed while importing is bounded: beyond a budget nodes are added
// to the graph as they are, and questions for numbers are refused.
//
// Not thread-safe; does not own the graph.
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

// A result with more elements is not computed at import.
inline constexpr int64_t kMaxFoldedElements = int64_t{1} << 22;
// Nodes of one graph.
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

  // `tensor` has one number per element, or a single number that fills it.
  // What it holds is taken from the budget unchecked.
  ValueId Constant(HostTensor tensor);

  // Adds the node, or computes its outputs as constants. InvalidArgument also
  // when the graph would hold too much.
  absl::StatusOr<ValueIds> Emit(Op op, absl::Span<const ValueId> inputs,
                                Attributes attributes);

  // The numbers of a value.
  //   FAILED_PRECONDITION  it depends on inputs of the graph
  //   INVALID_ARGUMENT     over the budget, or its computation fails
  absl::StatusOr<HostTensor> Numbers(ValueId id);
  // Whether it depends on no input.
  bool HasNumbers(ValueId id);
  // Names of the graph inputs that it depends on, in the graph's order.
  std::vector<std::string> InputsOf(ValueId id);

  // Takes element operations from the budget; InvalidArgument when too few
  // are left.
  absl::Status Spend(int64_t work) { return budget_.Compute(work); }

 private:
  using Elements = std::vector<double>;

  bool DependsOnInput(ValueId id) const;
  // Positions of the nodes that the value depends on, in rising order.
  std::vector<size_t> Ancestors(ValueId id);
  // Brings producers_ and depends_on_input_ up to date.
  void IndexNewNodes();
  absl::StatusOr<const Elements*> Compute(ValueId id);
  absl::Status ComputeLeaf(ValueId id);
  absl::Status RunNode(const Node& node, std::vector<Elements>& outputs);
  // What a node costs of the budget.
  int64_t Work(const Node& node) const;
  // What a node that was added takes, its outputs included.
  uint64_t Bytes(const Node& node) const;

  Graph* graph_;
  GraphBuilder builder_;
  ImportBudget budget_;
  ReadPersistent read_persistent_;
  size_t indexed_nodes_ = 0;
  absl::flat_hash_map<int32_t, size_t> producers_;  // value -> node
  std::vector<bool> depends_on_input_;  // by value, of indexed nodes
  // Of values that were asked for; constants with one number are expanded.
  absl::flat_hash_map<int32_t, Elements> computed_;
};

}  // namespace gpupool::engine::onnx_import
