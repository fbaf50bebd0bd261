// Reads the lists of the operators of trees.
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "engine/base/status_macros.h"
#include "engine/import/onnx/classic/tree_table.h"
#include "engine/import/onnx/graph/lowering_parts.h"

namespace gpupool::engine::onnx_import {
namespace {

// Nodes by the numbers of tree and node in the file.
using NodeKey = std::pair<int64_t, int64_t>;
using NodeMap = absl::flat_hash_map<NodeKey, int64_t>;

absl::Status CheckLength(const NodeContext& ctx, absl::string_view name,
                         size_t size, size_t needed) {
  if (size == needed) return absl::OkStatus();
  return ctx.Refuse("'", name, "' has ", size, " entries and needs ", needed,
                    ", one for each node or leaf");
}

absl::StatusOr<TreeMode> ModeOf(const NodeContext& ctx,
                                absl::string_view word) {
  constexpr std::pair<absl::string_view, TreeMode> kModes[] = {
      {"BRANCH_LEQ", TreeMode::kLessOrEqual},
      {"BRANCH_LT", TreeMode::kLess},
      {"BRANCH_GTE", TreeMode::kGreaterOrEqual},
      {"BRANCH_GT", TreeMode::kGreater},
      {"BRANCH_EQ", TreeMode::kEqual},
      {"BRANCH_NEQ", TreeMode::kNotEqual},
      {"LEAF", TreeMode::kLeaf}};
  for (const auto& [name, mode] : kModes) {
    if (name == word) return mode;
  }
  return ctx.Refuse("the mode '", word, "' of a node is unknown");
}

// Returns the numbers of a list attribute, or of the tensor attribute that
// takes its place for float64.
absl::StatusOr<std::vector<double>> RealList(NodeContext& ctx,
                                             absl::string_view name) {
  const std::string tensor = absl::StrCat(name, "_as_tensor");
  if (!ctx.has_attribute(tensor)) return ctx.Floats(name, {});
  ASSIGN_OR_RETURN(HostTensor numbers, ctx.TensorAttribute(tensor));
  return std::move(numbers.numbers);
}

// The lists of a node-oriented operator that all have one entry per node.
struct NodeLists {
  std::vector<int64_t> trees, nodes, features, yes, no, missing;
  std::vector<double> values;
  std::vector<std::string> modes;
};

absl::StatusOr<NodeLists> ReadLists(NodeContext& ctx) {
  NodeLists lists;
  const std::pair<absl::string_view, std::vector<int64_t>*> integers[] = {
      {"nodes_treeids", &lists.trees},
      {"nodes_nodeids", &lists.nodes},
      {"nodes_featureids", &lists.features},
      {"nodes_truenodeids", &lists.yes},
      {"nodes_falsenodeids", &lists.no},
      {"nodes_missing_value_tracks_true", &lists.missing}};
  for (const auto& [name, list] : integers) {
    ASSIGN_OR_RETURN(*list, ctx.Ints(name, {}));
  }
  ASSIGN_OR_RETURN(lists.values, RealList(ctx, "nodes_values"));
  ASSIGN_OR_RETURN(lists.modes, ctx.Strings("nodes_modes"));
  const size_t count = lists.trees.size();
  if (count == 0) return ctx.Refuse("has no nodes ('nodes_treeids' is empty)");
  RETURN_IF_ERROR(ReserveNumbers(ctx, static_cast<int64_t>(count)));
  if (lists.missing.empty()) lists.missing.assign(count, 0);
  for (const auto& [name, list] : integers) {
    RETURN_IF_ERROR(CheckLength(ctx, name, list->size(), count));
  }
  RETURN_IF_ERROR(CheckLength(ctx, "nodes_values", lists.values.size(), count));
  RETURN_IF_ERROR(CheckLength(ctx, "nodes_modes", lists.modes.size(), count));
  return lists;
}

absl::StatusOr<int64_t> Find(const NodeContext& ctx, const NodeMap& map,
                             const NodeKey& key, absl::string_view who) {
  const auto found = map.find(key);
  if (found != map.end()) return found->second;
  return ctx.Refuse(who, " names node ", key.second, " of tree ", key.first,
                    ", which is not there");
}

// Fills in the nodes and the roots. The first node of a tree is its root.
absl::StatusOr<NodeMap> AddNodes(NodeContext& ctx, const NodeLists& lists,
                                 TreeForest& forest) {
  NodeMap map;
  absl::flat_hash_map<int64_t, int64_t> roots;
  const size_t count = lists.trees.size();
  for (size_t i = 0; i < count; ++i) {
    const NodeKey key(lists.trees[i], lists.nodes[i]);
    if (!map.emplace(key, static_cast<int64_t>(i)).second) {
      return ctx.Refuse("node ", key.second, " of tree ", key.first,
                        " is there twice");
    }
    if (roots.emplace(key.first, static_cast<int64_t>(i)).second) {
      forest.roots.push_back(static_cast<int64_t>(i));
    }
  }
  for (size_t i = 0; i < count; ++i) {
    TreeNode node{.feature = lists.features[i],
                  .value = lists.values[i],
                  .missing_yes = lists.missing[i] != 0,
                  .members = {}};
    ASSIGN_OR_RETURN(node.mode, ModeOf(ctx, lists.modes[i]));
    if (node.mode != TreeMode::kLeaf) {
      const std::string who =
          absl::StrCat("node ", lists.nodes[i], " of tree ", lists.trees[i]);
      ASSIGN_OR_RETURN(node.yes,
                       Find(ctx, map, {lists.trees[i], lists.yes[i]}, who));
      ASSIGN_OR_RETURN(node.no,
                       Find(ctx, map, {lists.trees[i], lists.no[i]}, who));
    }
    forest.nodes.push_back(std::move(node));
  }
  return map;
}

absl::Status AddWeights(NodeContext& ctx, absl::string_view prefix,
                        const NodeMap& map, TreeForest& forest) {
  const auto name = [prefix](absl::string_view rest) {
    return absl::StrCat(prefix, "_", rest);
  };
  ASSIGN_OR_RETURN(const std::vector<int64_t> targets,
                   ctx.Ints(name("ids"), {}));
  ASSIGN_OR_RETURN(const std::vector<int64_t> nodes,
                   ctx.Ints(name("nodeids"), {}));
  ASSIGN_OR_RETURN(const std::vector<int64_t> trees,
                   ctx.Ints(name("treeids"), {}));
  ASSIGN_OR_RETURN(const std::vector<double> values,
                   RealList(ctx, name("weights")));
  const size_t count = targets.size();
  RETURN_IF_ERROR(ReserveNumbers(ctx, static_cast<int64_t>(count)));
  RETURN_IF_ERROR(CheckLength(ctx, name("nodeids"), nodes.size(), count));
  RETURN_IF_ERROR(CheckLength(ctx, name("treeids"), trees.size(), count));
  RETURN_IF_ERROR(CheckLength(ctx, name("weights"), values.size(), count));
  for (size_t i = 0; i < count; ++i) {
    if (targets[i] < 0 || targets[i] >= forest.targets) {
      return ctx.Refuse("'", name("ids"), "' has ", targets[i],
                        ", which must be from 0 to ", forest.targets - 1);
    }
    LeafWeight weight{.target = targets[i], .value = values[i]};
    ASSIGN_OR_RETURN(weight.node,
                     Find(ctx, map, {trees[i], nodes[i]}, name("nodeids")));
    forest.weights.push_back(weight);
  }
  return absl::OkStatus();
}

// The lists of TreeEnsemble with one entry per branch, and per leaf.
struct EnsembleLists {
  std::vector<int64_t> features, yes, no, yes_leaf, no_leaf, missing;
  std::vector<double> splits, modes, members;
  std::vector<int64_t> leaf_targets, roots;
  std::vector<double> leaf_values;
};

absl::StatusOr<EnsembleLists> ReadEnsembleLists(NodeContext& ctx) {
  EnsembleLists lists;
  const std::pair<absl::string_view, std::vector<int64_t>*> integers[] = {
      {"nodes_featureids", &lists.features},
      {"nodes_truenodeids", &lists.yes},
      {"nodes_falsenodeids", &lists.no},
      {"nodes_trueleafs", &lists.yes_leaf},
      {"nodes_falseleafs", &lists.no_leaf},
      {"nodes_missing_value_tracks_true", &lists.missing}};
  for (const auto& [name, list] : integers) {
    ASSIGN_OR_RETURN(*list, ctx.Ints(name, {}));
  }
  ASSIGN_OR_RETURN(HostTensor splits, ctx.TensorAttribute("nodes_splits"));
  ASSIGN_OR_RETURN(HostTensor modes, ctx.TensorAttribute("nodes_modes"));
  ASSIGN_OR_RETURN(HostTensor values, ctx.TensorAttribute("leaf_weights"));
  ASSIGN_OR_RETURN(lists.leaf_targets, ctx.Ints("leaf_targetids", {}));
  ASSIGN_OR_RETURN(lists.roots, ctx.Ints("tree_roots", {}));
  if (ctx.has_attribute("membership_values")) {
    ASSIGN_OR_RETURN(HostTensor members,
                     ctx.TensorAttribute("membership_values"));
    lists.members = std::move(members.numbers);
  }
  lists.splits = std::move(splits.numbers);
  lists.modes = std::move(modes.numbers);
  lists.leaf_values = std::move(values.numbers);
  const size_t count = lists.features.size();
  RETURN_IF_ERROR(ReserveNumbers(ctx, static_cast<int64_t>(count)));
  if (lists.missing.empty()) lists.missing.assign(count, 0);
  for (const auto& [name, list] : integers) {
    RETURN_IF_ERROR(CheckLength(ctx, name, list->size(), count));
  }
  RETURN_IF_ERROR(CheckLength(ctx, "nodes_splits", lists.splits.size(), count));
  RETURN_IF_ERROR(CheckLength(ctx, "nodes_modes", lists.modes.size(), count));
  RETURN_IF_ERROR(CheckLength(ctx, "leaf_weights", lists.leaf_values.size(),
                              lists.leaf_targets.size()));
  if (lists.roots.empty()) return ctx.Refuse("'tree_roots' is empty");
  return lists;
}

// Returns the position of a child, which is a branch or a leaf after all
// branches.
absl::StatusOr<int64_t> ChildOf(const NodeContext& ctx,
                                const EnsembleLists& lists, int64_t child,
                                bool leaf) {
  const auto branches = static_cast<int64_t>(lists.features.size());
  const int64_t count =
      leaf ? static_cast<int64_t>(lists.leaf_targets.size()) : branches;
  if (child < 0 || child >= count) {
    return ctx.Refuse("a node names the ", leaf ? "leaf " : "node ", child,
                      "; there are ", count);
  }
  return leaf ? branches + child : child;
}

// Reads the next set of `members`, which NaN ends.
std::vector<double> NextMembers(const std::vector<double>& members,
                                size_t& place) {
  std::vector<double> set;
  while (place < members.size() && members[place] == members[place]) {
    set.push_back(members[place++]);
  }
  ++place;
  return set;
}

absl::Status AddBranches(NodeContext& ctx, const EnsembleLists& lists,
                         TreeForest& forest) {
  constexpr TreeMode kModes[] = {TreeMode::kLessOrEqual,    TreeMode::kLess,
                                 TreeMode::kGreaterOrEqual, TreeMode::kGreater,
                                 TreeMode::kEqual,          TreeMode::kNotEqual,
                                 TreeMode::kMember};
  size_t member = 0;
  for (size_t i = 0; i < lists.features.size(); ++i) {
    const double mode = lists.modes[i];
    if (!(mode >= 0 && mode < static_cast<double>(std::size(kModes)))) {
      return ctx.Refuse("the mode ", mode, " of node ", i,
                        " must be from 0 to 6");
    }
    TreeNode node{.mode = kModes[static_cast<size_t>(mode)],
                  .feature = lists.features[i],
                  .value = lists.splits[i],
                  .missing_yes = lists.missing[i] != 0,
                  .members = {}};
    ASSIGN_OR_RETURN(node.yes,
                     ChildOf(ctx, lists, lists.yes[i], lists.yes_leaf[i] != 0));
    ASSIGN_OR_RETURN(node.no,
                     ChildOf(ctx, lists, lists.no[i], lists.no_leaf[i] != 0));
    if (node.mode == TreeMode::kMember) {
      node.value = 0;
      node.members = NextMembers(lists.members, member);
      if (node.members.empty()) {
        return ctx.Refuse("'membership_values' has no set for node ", i);
      }
    }
    forest.nodes.push_back(std::move(node));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TreeForest> ReadNodeLists(NodeContext& ctx,
                                         absl::string_view prefix,
                                         int64_t targets) {
  TreeForest forest;
  forest.targets = targets;
  ASSIGN_OR_RETURN(const NodeLists lists, ReadLists(ctx));
  ASSIGN_OR_RETURN(const NodeMap map, AddNodes(ctx, lists, forest));
  RETURN_IF_ERROR(AddWeights(ctx, prefix, map, forest));
  return forest;
}

absl::StatusOr<TreeForest> ReadTreeEnsemble(NodeContext& ctx) {
  TreeForest forest;
  ASSIGN_OR_RETURN(forest.targets, ctx.Int("n_targets", 1));
  ASSIGN_OR_RETURN(const EnsembleLists lists, ReadEnsembleLists(ctx));
  RETURN_IF_ERROR(AddBranches(ctx, lists, forest));
  for (size_t i = 0; i < lists.leaf_targets.size(); ++i) {
    const int64_t target = lists.leaf_targets[i];
    if (target < 0 || target >= forest.targets) {
      return ctx.Refuse("'leaf_targetids' has ", target,
                        ", which must be from 0 to ", forest.targets - 1);
    }
    forest.weights.push_back({.node = static_cast<int64_t>(forest.nodes.size()),
                              .target = target,
                              .value = lists.leaf_values[i]});
    forest.nodes.emplace_back();
  }
  for (const int64_t root : lists.roots) {
    ASSIGN_OR_RETURN(forest.roots.emplace_back(),
                     ChildOf(ctx, lists, root, false));
  }
  return forest;
}

}  // namespace gpupool::engine::onnx_import
