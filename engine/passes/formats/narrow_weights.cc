#include "engine/passes/formats/narrow_weights.h"

#include <algorithm>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/graph/builder.h"
#include "engine/passes/rewrite/rewrite.h"

namespace gpupool::engine {
namespace {

bool IsCastTo(const Node& node, DType dtype) {
  return node.op == Op::kCast && node.get<CastAttributes>().dtype == dtype;
}

// Returns whether the node only moves numbers. They may then be rounded before
// it instead of after it.
bool OnlyMoves(const Node& node) {
  return node.op == Op::kReshape || node.op == Op::kTranspose;
}

bool IsReadInLowOnly(const Graph& graph, const GraphIndex& index, ValueId id,
                     DType low) {
  const auto readers = index.readers(id);
  if (readers.empty() || index.is_output(id)) return false;
  return std::all_of(readers.begin(), readers.end(), [&](int at) {
    const Node& node = graph.nodes()[static_cast<size_t>(at)];
    return IsCastTo(node, low) ||
           (OnlyMoves(node) &&
            IsReadInLowOnly(graph, index, node.outputs[0], low));
  });
}

bool IsWeight(const Value& value) {
  return value.kind == ValueKind::kPersistent && value.dtype == DType::kFloat32;
}

class Narrower {
 public:
  Narrower(Graph& graph, DType low)
      : graph_(graph),
        low_(low),
        index_(graph),
        replaced_(Identity(graph)),
        drop_(graph.nodes().size(), false) {}

  bool CanNarrow(ValueId id) const {
    return IsReadInLowOnly(graph_, index_, id, low_);
  }

  void Narrow(ValueId id) {
    graph_.mutable_value(id).dtype = low_;
    for (const int at : index_.readers(id)) {
      const Node& node = graph_.nodes()[static_cast<size_t>(at)];
      if (OnlyMoves(node)) {
        Narrow(node.outputs[0]);
        continue;
      }
      drop_[static_cast<size_t>(at)] = true;
      replaced_[static_cast<size_t>(node.outputs[0].index)] = id;
    }
  }

  void Finish() {
    ApplyReplacements(graph_, replaced_);
    DropNodes(graph_, drop_);
  }

 private:
  Graph& graph_;
  const DType low_;
  const GraphIndex index_;
  std::vector<ValueId> replaced_;
  std::vector<bool> drop_;
};

// Reads the weight through a cast to float32 at the front of the graph. Readers
// are redirected before the cast is added, so that it reads the weight.
absl::Status CastBack(Graph& graph, DType low, ValueId id) {
  graph.mutable_value(id).dtype = low;
  std::vector<ValueId> replaced = Identity(graph);
  GraphBuilder builder(&graph);
  ASSIGN_OR_RETURN(
      const ValueId wide,
      builder.EmitOne(Op::kCast, {id}, CastAttributes{DType::kFloat32}));
  // `wide` was added after Identity and needs an entry of its own.
  replaced.push_back(wide);
  replaced[static_cast<size_t>(id.index)] = wide;
  Node cast = std::move(graph.mutable_nodes().back());
  graph.mutable_nodes().pop_back();
  ApplyReplacements(graph, replaced);
  graph.mutable_nodes().insert(graph.mutable_nodes().begin(), std::move(cast));
  return absl::OkStatus();
}

}  // namespace

absl::flat_hash_set<std::string> FindNarrowWeights(const Graph& graph,
                                                   DType low) {
  absl::flat_hash_set<std::string> names;
  const GraphIndex index(graph);
  for (const Value& value : graph.values()) {
    if (IsWeight(value) && IsReadInLowOnly(graph, index, value.id, low)) {
      names.insert(value.name);
    }
  }
  return names;
}

absl::Status NarrowWeights(Graph& graph, DType low,
                           const absl::flat_hash_set<std::string>& names) {
  std::vector<ValueId> others;
  Narrower narrower(graph, low);
  for (const Value& value : graph.values()) {
    if (!IsWeight(value) || !names.contains(value.name)) continue;
    if (narrower.CanNarrow(value.id)) {
      narrower.Narrow(value.id);
    } else {
      others.push_back(value.id);
    }
  }
  narrower.Finish();
  for (const ValueId id : others) RETURN_IF_ERROR(CastBack(graph, low, id));
  return absl::OkStatus();
}

}  // namespace gpupool::engine
