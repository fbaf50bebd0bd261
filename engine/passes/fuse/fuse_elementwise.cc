#include "engine/passes/fuse/fuse_elementwise.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/graph/fused.h"
#include "engine/passes/rewrite/rewrite.h"

namespace gpupool::engine {
namespace {

using Members = std::vector<int>;  // positions in rising order

bool MayBeInside(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBool ||
         dtype == DType::kBFloat16 || dtype == DType::kFloat16;
}

class ElementwiseFuser {
 public:
  explicit ElementwiseFuser(Graph& graph)
      : graph_(graph),
        index_(graph),
        updaters_(Updaters(graph)),
        island_of_(graph.nodes().size(), -1) {}

  void Run() {
    const int count = static_cast<int>(graph_.nodes().size());
    for (int i = 0; i < count; ++i) {
      if (CanJoin(NodeAt(i))) Join(i);
    }
    std::vector<bool> drop(graph_.nodes().size(), false);
    for (const Members& members : islands_) {
      if (members.size() > 1) Replace(members, drop);
    }
    DropNodes(graph_, drop);
  }

 private:
  const Node& NodeAt(int position) const {
    return graph_.nodes()[static_cast<size_t>(position)];
  }
  int IslandOf(int position) const {
    return position < 0 ? -1 : island_of_[static_cast<size_t>(position)];
  }

  bool CanJoin(const Node& node) const {
    if (node.stage != Stage::kStep || !MayBeFusedStep(node.op)) return false;
    const Value& y = graph_.value(node.outputs[0]);
    // The buffer of an alias belongs to another value, so a fused result could
    // not replace it.
    if (y.alias.kind != AliasKind::kNone) return false;
    if (!MayBeInside(y.dtype)) return false;
    for (const ValueId id : node.inputs) {
      const Value& x = graph_.value(id);
      if (!MayBeInside(x.dtype)) return false;
      // A fused kernel walks all operands in one order of memory.
      if (x.shape.rank() == 4 && x.layout != y.layout) return false;
      // The layout of a 4-D operand of a 5-D value cannot be checked against
      // it.
      if (x.shape.rank() == 4 && y.shape.rank() > 4) return false;
    }
    return true;
  }

  // Adds the node to the islands of its operands, or starts an island.
  void Join(int position) {
    std::vector<int> candidates;
    for (const ValueId id : NodeAt(position).inputs) {
      const int island = IslandOf(index_.producer(id));
      if (island < 0 || !SameShape(island, position) ||
          std::count(candidates.begin(), candidates.end(), island) > 0) {
        continue;
      }
      candidates.push_back(island);
    }
    // Joining all islands saves most; if that is not legal, one of them may do.
    if (candidates.size() > 1 && TryMerge(candidates, position)) return;
    for (const int island : candidates) {
      if (TryMerge({island}, position)) return;
    }
    island_of_[static_cast<size_t>(position)] =
        static_cast<int>(islands_.size());
    islands_.push_back({position});
  }

  bool SameShape(int island, int position) const {
    const Node& first = NodeAt(islands_[static_cast<size_t>(island)][0]);
    const Value& a = graph_.value(first.outputs[0]);
    const Value& b = graph_.value(NodeAt(position).outputs[0]);
    return a.shape == b.shape && a.layout == b.layout;
  }

  bool TryMerge(const std::vector<int>& islands, int position) {
    Members members;
    for (const int island : islands) {
      const Members& part = islands_[static_cast<size_t>(island)];
      members.insert(members.end(), part.begin(), part.end());
    }
    std::sort(members.begin(), members.end());
    // The new node comes after all of them, so the list stays sorted.
    members.push_back(position);
    if (!IsLegal(members) || !SavesMemory(members)) return false;
    for (const int island : islands) {
      // Merged islands stay in the list without members. The numbers of the
      // others must not change.
      islands_[static_cast<size_t>(island)].clear();
    }
    const int target = islands[0];
    for (const int member : members) {
      island_of_[static_cast<size_t>(member)] = target;
    }
    islands_[static_cast<size_t>(target)] = std::move(members);
    return true;
  }

  static bool Contains(const Members& members, int position) {
    return std::binary_search(members.begin(), members.end(), position);
  }

  ValueIds InputsOf(const Members& members) const {
    ValueIds inputs;
    for (const int member : members) {
      for (const ValueId id : NodeAt(member).inputs) {
        if (Contains(members, index_.producer(id)) ||
            std::count(inputs.begin(), inputs.end(), id) > 0) {
          continue;
        }
        inputs.push_back(id);
      }
    }
    return inputs;
  }

  // Returns the values that nodes outside the island, or outputs, need.
  ValueIds ResultsOf(const Members& members) const {
    ValueIds results;
    for (const int member : members) {
      const ValueId y = NodeAt(member).outputs[0];
      bool outside = index_.is_output(y);
      for (const int reader : index_.readers(y)) {
        outside = outside || !Contains(members, reader);
      }
      if (outside) results.push_back(y);
    }
    return results;
  }

  // Returns whether all members can run at the place of the last one: no other
  // node reads their results earlier, and nothing overwrites their inputs
  // before.
  bool IsLegal(const Members& members) const {
    const int last = members.back();
    if (members.size() > kMaxFusedSteps) return false;
    for (const int member : members) {
      for (const int reader : index_.readers(NodeAt(member).outputs[0])) {
        if (reader < last && !Contains(members, reader)) return false;
      }
    }
    const ValueIds inputs = InputsOf(members);
    const ValueIds results = ResultsOf(members);
    if (inputs.empty() || inputs.size() > kMaxFusedInputs || results.empty() ||
        results.size() > kMaxFusedResults) {
      return false;
    }
    for (const ValueId id : inputs) {
      const int updater = updaters_[static_cast<size_t>(id.index)];
      // The fused node would read the new value where a member read the old
      // one.
      if (updater >= 0 && updater < last) return false;
    }
    return true;
  }

  // Returns whether inputs that now live until the last member are at most as
  // many bytes as the values that need no memory any more.
  bool SavesMemory(const Members& members) const {
    // An island without gaps moves nothing, so no input lives longer.
    const int last = members.back();
    if (last - members[0] + 1 == static_cast<int>(members.size())) return true;
    uint64_t kept = 0;
    for (const ValueId id : InputsOf(members)) {
      const Value& value = graph_.value(id);
      // Other values keep their memory until the end of the step in any case.
      if (value.kind != ValueKind::kIntermediate || index_.is_output(id)) {
        continue;
      }
      if (index_.readers(id).back() < last) kept += value.bytes();
    }
    uint64_t saved = 0;
    const ValueIds results = ResultsOf(members);
    for (const int member : members) {
      const ValueId y = NodeAt(member).outputs[0];
      if (std::count(results.begin(), results.end(), y) == 0) {
        saved += graph_.value(y).bytes();
      }
    }
    return kept <= saved;
  }

  void Replace(const Members& members, std::vector<bool>& drop) {
    const ValueIds inputs = InputsOf(members);
    const ValueIds results = ResultsOf(members);
    std::vector<ValueId> operands = inputs;
    FusedAttributes fused;
    const auto operand_of = [&operands](ValueId id) {
      const auto at = std::find(operands.begin(), operands.end(), id);
      return static_cast<int>(at - operands.begin());
    };
    for (const int member : members) {
      const Node& node = NodeAt(member);
      std::vector<int> reads;
      for (const ValueId id : node.inputs) reads.push_back(operand_of(id));
      fused.steps.push_back(
          MakeFusedStep(node.op, node.attributes, std::move(reads)));
      // Operand numbers are positions in this list: inputs, then steps.
      operands.push_back(node.outputs[0]);
      // The last member becomes the fused node.
      drop[static_cast<size_t>(member)] = member != members.back();
    }
    for (const ValueId id : results) fused.results.push_back(operand_of(id));
    fused.shape = graph_.value(results[0]).shape;
    Node& node = graph_.mutable_nodes()[static_cast<size_t>(members.back())];
    node.op = Op::kFused;
    node.attributes = std::move(fused);
    node.inputs = inputs;
    node.outputs = results;
  }

  Graph& graph_;
  GraphIndex index_;
  std::vector<int> updaters_;
  std::vector<int> island_of_;  // by position
  std::vector<Members> islands_;
};

}  // namespace

absl::Status FuseElementwise(Graph& graph) {
  ElementwiseFuser(graph).Run();
  return absl::OkStatus();
}

}  // namespace gpupool::engine
