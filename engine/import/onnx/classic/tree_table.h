// The trees of ai.onnx.ml as one table, whatever operator they come from. A
// walk begins at a root and goes on to one of two slots of the table. Leaves
// lead to themselves, so that all walks take the same number of steps.
//
// Plain values and pure functions of the node.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/import/onnx/graph/node_context.h"

namespace gpupool::engine::onnx_import {

enum class TreeMode : uint8_t {
  kLessOrEqual,
  kLess,
  kGreaterOrEqual,
  kGreater,
  kEqual,
  kNotEqual,
  kMember,  // x is one of `members`
  kLeaf,
};

// A node as the file has it.
struct TreeNode {
  TreeMode mode = TreeMode::kLeaf;
  int64_t feature = 0;
  double value = 0;
  int64_t yes = 0, no = 0;   // positions in TreeForest::nodes
  bool missing_yes = false;  // NaN takes the branch `yes`
  std::vector<double> members;
};

// A leaf adds `value` to the score of `target`.
struct LeafWeight {
  int64_t node = 0;  // position in TreeForest::nodes
  int64_t target = 0;
  double value = 0;
};

// All positions and targets are in range. There may be cycles.
struct TreeForest {
  std::vector<TreeNode> nodes;
  std::vector<int64_t> roots;
  std::vector<LeafWeight> weights;
  int64_t targets = 1;
};

// Reads the lists of TreeEnsembleRegressor ("target") and
// TreeEnsembleClassifier
// ("class"), whose names have this prefix. INVALID_ARGUMENT when lists differ
// in length, or name a node, a child or a target that is not there, or a node
// twice.
absl::StatusOr<TreeForest> ReadNodeLists(NodeContext& ctx,
                                         absl::string_view prefix,
                                         int64_t targets);
// Reads the lists of TreeEnsemble.
absl::StatusOr<TreeForest> ReadTreeEnsemble(NodeContext& ctx);

// The slots of all trees. The first ones are leaves. All comparisons are x <=
// threshold.
struct TreeTable {
  std::vector<double> feature, threshold, yes, no;
  std::vector<double> missing;   // 1: NaN takes `yes`
  std::vector<int64_t> leaves;   // position in the forest of each leaf's slot
  std::vector<double> roots;     // slots
  std::vector<int64_t> tree_of;  // the position in `roots` of each leaf's tree
  int64_t levels = 0;            // steps after which every walk is at a leaf
  bool shared = false;           // whether trees have nodes in common
};

// Most steps of a walk.
inline constexpr int64_t kMaxTreeLevels = 1000;

// Returns the table for rows of so many features of a floating type.
// INVALID_ARGUMENT when a feature is out of range, a walk does not end, or the
// table would be too large.
absl::StatusOr<TreeTable> MakeTreeTable(NodeContext& ctx,
                                        const TreeForest& forest,
                                        int64_t features, DType dtype);

}  // namespace gpupool::engine::onnx_import
