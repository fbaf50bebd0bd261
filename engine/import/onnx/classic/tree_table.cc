#include "engine/import/onnx/classic/tree_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/lowering_parts.h"

namespace gpupool::engine::onnx_import {
namespace {

// Returns the largest number below x. Kernels may take denormal numbers for 0,
// and so may this thread. So there are none between 0 and the smallest normal
// number, and none are compared with 0.
template <typename T>
double Below(double x) {
  constexpr T kLeast = std::numeric_limits<T>::min();
  const T number = static_cast<T>(x);
  if (number > -kLeast && number < kLeast) return -kLeast;
  if (number == kLeast) return 0;
  return std::nextafter(number, -std::numeric_limits<T>::infinity());
}

// Returns how many slots a node takes, which may be visited one after the
// other.
int64_t SlotsOf(const TreeNode& node) {
  switch (node.mode) {
    case TreeMode::kLeaf:
      return 0;
    case TreeMode::kEqual:
    case TreeMode::kNotEqual:
      return 2;
    case TreeMode::kMember:
      return 2 * static_cast<int64_t>(node.members.size());
    default:
      return 1;
  }
}

class TableMaker {
 public:
  TableMaker(NodeContext& ctx, const TreeForest& forest, int64_t features,
             DType dtype)
      : ctx_(ctx),
        forest_(forest),
        features_(features),
        double_(dtype == DType::kFloat64),
        states_(forest.nodes.size()) {}

  absl::StatusOr<TreeTable> Make();

 private:
  struct State {
    bool open = false;    // on the path from the root
    int64_t height = -1;  // steps to the farthest leaf; -1: not known yet
    int64_t tree = 0;
    int64_t slot = 0;
  };

  const TreeNode& node(int64_t at) const {
    return forest_.nodes[static_cast<size_t>(at)];
  }
  State& state(int64_t at) { return states_[static_cast<size_t>(at)]; }
  double slot(int64_t at) { return static_cast<double>(state(at).slot); }
  double below(double x) const {
    return double_ ? Below<double>(x) : Below<float>(x);
  }

  absl::Status Visit(int64_t root, int64_t tree);
  absl::Status Enter(int64_t at, int64_t tree);
  absl::Status Leave(int64_t at);
  void AddLeaf(int64_t at, int64_t tree);
  void AddBranch(const TreeNode& node);

  // One slot: x <= threshold ? yes : no.
  struct Slot {
    double threshold, yes, no;
    bool missing = false;
  };
  void Add(int64_t feature, const Slot& slot);
  // Adds two slots that tell whether x is the number.
  void AddEqual(int64_t feature, double number, const Slot& branches);

  NodeContext& ctx_;
  const TreeForest& forest_;
  const int64_t features_;
  const bool double_;
  std::vector<State> states_;
  std::vector<int64_t> path_;
  std::vector<int64_t> branches_;  // reachable ones
  TreeTable table_;
};

absl::StatusOr<TreeTable> TableMaker::Make() {
  for (size_t i = 0; i < forest_.roots.size(); ++i) {
    RETURN_IF_ERROR(Visit(forest_.roots[i], static_cast<int64_t>(i)));
    table_.levels = std::max(table_.levels, state(forest_.roots[i]).height);
  }
  if (table_.levels > kMaxTreeLevels) {
    return ctx_.Refuse("a tree is ", table_.levels,
                       " levels deep; the limit is ", kMaxTreeLevels);
  }
  // Leaves have the first slots.
  int64_t next = static_cast<int64_t>(table_.leaves.size());
  for (const int64_t at : branches_) {
    state(at).slot = next;
    next += SlotsOf(node(at));
    if (next > kMaxListedNumbers) {
      return ctx_.Refuse("the trees need more than ", kMaxListedNumbers,
                         " slots");
    }
  }
  for (const int64_t at : branches_) AddBranch(node(at));
  for (const int64_t root : forest_.roots) table_.roots.push_back(slot(root));
  return std::move(table_);
}

// Walks all nodes below the root in depth without recursion.
absl::Status TableMaker::Visit(int64_t root, int64_t tree) {
  RETURN_IF_ERROR(Enter(root, tree));
  while (!path_.empty()) {
    const int64_t at = path_.back();
    const TreeNode& here = node(at);
    const bool yes = state(here.yes).height < 0 || state(here.yes).open;
    const bool no = state(here.no).height < 0 || state(here.no).open;
    if (yes) {
      RETURN_IF_ERROR(Enter(here.yes, tree));
    } else if (no) {
      RETURN_IF_ERROR(Enter(here.no, tree));
    } else {
      RETURN_IF_ERROR(Leave(at));
    }
  }
  return absl::OkStatus();
}

absl::Status TableMaker::Enter(int64_t at, int64_t tree) {
  State& here = state(at);
  if (here.open) {
    return ctx_.Refuse("the nodes of tree ", tree,
                       " lead back to a node above; a tree has no cycles");
  }
  if (here.height >= 0) {
    if (here.tree != tree) table_.shared = true;
    return absl::OkStatus();
  }
  here.tree = tree;
  const TreeNode& given = node(at);
  if (given.mode == TreeMode::kLeaf) {
    AddLeaf(at, tree);
    return absl::OkStatus();
  }
  if (given.feature < 0 || given.feature >= features_) {
    return ctx_.Refuse("a node compares feature ", given.feature,
                       "; the input has ", features_);
  }
  if (std::isnan(given.value)) {
    return ctx_.Refuse("a node compares with NaN");
  }
  here.open = true;
  path_.push_back(at);
  return absl::OkStatus();
}

absl::Status TableMaker::Leave(int64_t at) {
  const TreeNode& given = node(at);
  for (const int64_t child : {given.yes, given.no}) {
    if (state(child).tree != state(at).tree) table_.shared = true;
  }
  State& here = state(at);
  here.open = false;
  here.height = SlotsOf(given) +
                std::max(state(given.yes).height, state(given.no).height);
  branches_.push_back(at);
  path_.pop_back();
  return absl::OkStatus();
}

void TableMaker::AddLeaf(int64_t at, int64_t tree) {
  State& here = state(at);
  here.height = 0;
  here.slot = static_cast<int64_t>(table_.leaves.size());
  table_.leaves.push_back(at);
  table_.tree_of.push_back(tree);
  Add(0, {.threshold = 0, .yes = slot(at), .no = slot(at)});
}

void TableMaker::Add(int64_t feature, const Slot& slot) {
  table_.feature.push_back(static_cast<double>(feature));
  table_.threshold.push_back(slot.threshold);
  table_.yes.push_back(slot.yes);
  table_.no.push_back(slot.no);
  table_.missing.push_back(slot.missing ? 1 : 0);
}

void TableMaker::AddEqual(int64_t feature, double number,
                          const Slot& branches) {
  const auto second = static_cast<double>(table_.feature.size() + 1);
  Add(feature, {.threshold = number,
                .yes = second,
                .no = branches.no,
                .missing = branches.missing});
  Add(feature,
      {.threshold = below(number), .yes = branches.no, .no = branches.yes});
}

// NaN is not <= any number. Where it must take the branch of a smaller one, the
// slot is marked as missing.
void TableMaker::AddBranch(const TreeNode& node) {
  const double yes = slot(node.yes);
  const double no = slot(node.no);
  const int64_t feature = node.feature;
  const double value = node.value;
  const bool missing = node.missing_yes;
  switch (node.mode) {
    case TreeMode::kLessOrEqual:
      return Add(feature, {value, yes, no, missing});
    case TreeMode::kLess:
      return Add(feature, {below(value), yes, no, missing});
    case TreeMode::kGreaterOrEqual:
      return Add(feature, {below(value), no, yes, !missing});
    case TreeMode::kGreater:
      return Add(feature, {value, no, yes, !missing});
    case TreeMode::kEqual:
      return AddEqual(feature, value, {0, yes, no, missing});
    case TreeMode::kNotEqual:
      // NaN differs from every number.
      return AddEqual(feature, value, {0, no, yes, false});
    case TreeMode::kMember: {
      bool first = true;
      size_t left = node.members.size();
      for (const double member : node.members) {
        const auto next = static_cast<double>(table_.feature.size() + 2);
        AddEqual(feature, member,
                 {0, yes, --left > 0 ? next : no, first && missing});
        first = false;
      }
      return;
    }
    case TreeMode::kLeaf:
      return;
  }
}

}  // namespace

absl::StatusOr<TreeTable> MakeTreeTable(NodeContext& ctx,
                                        const TreeForest& forest,
                                        int64_t features, DType dtype) {
  return TableMaker(ctx, forest, features, dtype).Make();
}

}  // namespace gpupool::engine::onnx_import
