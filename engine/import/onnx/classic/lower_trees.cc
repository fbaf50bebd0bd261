// Ensembles of trees: a walk of each row through each tree, then the scores of
// the leaves that the walks reach.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/classic/classic_parts.h"
#include "engine/import/onnx/classic/tree_table.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"

namespace gpupool::engine::onnx_import {
namespace {

using Unary = UnaryFunction;
using Binary = BinaryFunction;

enum class Aggregate : uint8_t { kAverage, kSum, kMin, kMax };

// Returns input 0 as rows of float64, if it has that type, or of float32.
absl::StatusOr<ValueId> TreeRows(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId given, ctx.Input(0));
  if (ctx.dtype(given) != DType::kFloat64) return FeatureRows(ctx);
  RETURN_IF_ERROR(RequireRank(ctx, given, 1, 2));
  if (ctx.shape(given).elements() == 0) {
    return ctx.Refuse("the input ", ctx.shape(given).ToString(),
                      " has no numbers");
  }
  if (ctx.rank(given) == 2) return given;
  return ctx.Reshape(given, {1, ctx.shape(given)[0]});
}

absl::StatusOr<ValueId> ListedColumn(NodeContext& ctx, DType dtype,
                                     std::vector<double> numbers) {
  const auto count = static_cast<int64_t>(numbers.size());
  return Listed(ctx, dtype, {count}, std::move(numbers));
}

// Returns the int32 slots [rows, trees] of the leaves that x reaches.
absl::StatusOr<ValueId> WalkTrees(NodeContext& ctx, ValueId x,
                                  const TreeTable& table) {
  std::vector<double> columns = table.feature;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (table.missing[i] != 0) columns[i] = -1 - columns[i];
  }
  constexpr DType kWhole = DType::kInt32;
  std::vector<ValueId> operands{x};
  ASSIGN_OR_RETURN(operands.emplace_back(),
                   ListedColumn(ctx, kWhole, std::move(columns)));
  ASSIGN_OR_RETURN(operands.emplace_back(),
                   ListedColumn(ctx, ctx.dtype(x), table.threshold));
  for (const auto* links : {&table.no, &table.yes, &table.roots}) {
    ASSIGN_OR_RETURN(operands.emplace_back(),
                     ListedColumn(ctx, kWhole, *links));
  }
  return ctx.Emit(Op::kTreeWalk, operands, TreeWalkAttributes{table.levels});
}

// Returns the score that a leaf has for a target to which it adds nothing.
double NoScore(Aggregate aggregate) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (aggregate == Aggregate::kMin) return kInfinity;
  return aggregate == Aggregate::kMax ? -kInfinity : 0;
}

// Returns the scores of all leaves, by slot and target.
absl::StatusOr<std::vector<double>> LeafScores(NodeContext& ctx,
                                               const TreeForest& forest,
                                               const TreeTable& table,
                                               Aggregate aggregate) {
  const auto leaves = static_cast<int64_t>(table.leaves.size());
  if (forest.targets > kMaxListedNumbers / leaves) {
    return ctx.Refuse(leaves, " leaves and ", forest.targets,
                      " targets are over the limit of ", kMaxListedNumbers,
                      " numbers");
  }
  const double none = NoScore(aggregate);
  std::vector<double> scores(static_cast<size_t>(leaves * forest.targets),
                             none);
  std::vector<int64_t> slots(forest.nodes.size(), -1);
  for (int64_t slot = 0; slot < leaves; ++slot) {
    const int64_t node = table.leaves[static_cast<size_t>(slot)];
    slots[static_cast<size_t>(node)] = slot;
  }
  for (const LeafWeight& weight : forest.weights) {
    const int64_t slot = slots[static_cast<size_t>(weight.node)];
    if (slot < 0) continue;  // a branch, or a leaf that no walk reaches
    double& score =
        scores[static_cast<size_t>(slot * forest.targets + weight.target)];
    if (aggregate == Aggregate::kMin) {
      score = std::min(score, weight.value);
    } else if (aggregate == Aggregate::kMax) {
      score = std::max(score, weight.value);
    } else {
      score += weight.value;
    }
  }
  return scores;
}

// Returns for each tree the one target to which its leaves add. Empty when a
// tree has several.
std::vector<int64_t> TargetsOfTrees(const TreeForest& forest,
                                    const TreeTable& table) {
  std::vector<int64_t> targets(table.roots.size(), -1);
  if (table.shared) return {};
  std::vector<int64_t> trees(forest.nodes.size(), -1);
  for (size_t slot = 0; slot < table.leaves.size(); ++slot) {
    trees[static_cast<size_t>(table.leaves[slot])] = table.tree_of[slot];
  }
  for (const LeafWeight& weight : forest.weights) {
    const int64_t tree = trees[static_cast<size_t>(weight.node)];
    if (tree < 0) continue;
    int64_t& target = targets[static_cast<size_t>(tree)];
    if (target >= 0 && target != weight.target) return {};
    target = weight.target;
  }
  return targets;
}

// Sums the scores of leaves [rows, trees] by the target of their tree.
absl::StatusOr<ValueId> SumsByTarget(NodeContext& ctx, ValueId scores,
                                     const std::vector<int64_t>& targets,
                                     int64_t count) {
  const auto trees = static_cast<int64_t>(targets.size());
  if (count > kMaxListedNumbers / trees) {
    return ctx.Refuse(trees, " trees and ", count,
                      " targets are over the limit of ", kMaxListedNumbers,
                      " numbers");
  }
  std::vector<double> cells(static_cast<size_t>(trees * count), 0);
  for (int64_t tree = 0; tree < trees; ++tree) {
    const int64_t target = targets[static_cast<size_t>(tree)];
    if (target >= 0) cells[static_cast<size_t>(target * trees + tree)] = 1;
  }
  ASSIGN_OR_RETURN(
      const ValueId matrix,
      Listed(ctx, ctx.dtype(scores), {count, trees}, std::move(cells)));
  BatchMatMulAttributes product;
  product.transpose_b = true;
  return ctx.Emit(Op::kBatchMatMul, {scores, matrix}, product);
}

ReduceFunction FunctionOf(Aggregate aggregate) {
  switch (aggregate) {
    case Aggregate::kMin:
      return ReduceFunction::kMin;
    case Aggregate::kMax:
      return ReduceFunction::kMax;
    default:
      return ReduceFunction::kSum;
  }
}

// An ensemble and how its trees' scores become one for each target.
struct Ensemble {
  TreeForest forest;
  Aggregate aggregate = Aggregate::kSum;
};

// Returns 0 for targets to which no leaf added.
absl::StatusOr<ValueId> WithoutNone(NodeContext& ctx, ValueId scores,
                                    Aggregate aggregate) {
  if (NoScore(aggregate) == 0) return scores;
  ASSIGN_OR_RETURN(const ValueId none, ctx.Unary(Unary::kIsInf, scores));
  return ctx.Emit(Op::kWhere, {none, ctx.Scalar(ctx.dtype(scores), 0), scores});
}

// Returns the scores [rows, targets] of rows x, without base values.
absl::StatusOr<ValueId> EnsembleScores(NodeContext& ctx, ValueId x,
                                       const Ensemble& ensemble) {
  const auto& [forest, aggregate] = ensemble;
  ASSIGN_OR_RETURN(const TreeTable table,
                   MakeTreeTable(ctx, forest, ctx.shape(x)[1], ctx.dtype(x)));
  ASSIGN_OR_RETURN(const ValueId slots, WalkTrees(ctx, x, table));
  const auto leaves = static_cast<int64_t>(table.leaves.size());
  const bool adds = NoScore(aggregate) == 0;
  std::vector<int64_t> targets;
  if (adds && forest.targets > 1) targets = TargetsOfTrees(forest, table);
  ASSIGN_OR_RETURN(std::vector<double> scores,
                   LeafScores(ctx, forest, table, aggregate));
  std::vector<int64_t> dims{leaves, forest.targets};
  if (forest.targets == 1 || !targets.empty()) dims.pop_back();
  if (!targets.empty()) {
    // Each leaf has its one score.
    std::vector<double> own(static_cast<size_t>(leaves), 0);
    for (size_t i = 0; i < scores.size(); ++i) {
      own[i / static_cast<size_t>(forest.targets)] += scores[i];
    }
    scores = std::move(own);
  }
  ASSIGN_OR_RETURN(const ValueId per_leaf,
                   Listed(ctx, ctx.dtype(x), dims, std::move(scores)));
  ASSIGN_OR_RETURN(const ValueId found,
                   ctx.Emit(Op::kGather, {per_leaf, slots}, AxisAttributes{0}));
  ValueId y;
  if (!targets.empty()) {
    ASSIGN_OR_RETURN(y, SumsByTarget(ctx, found, targets, forest.targets));
  } else {
    ASSIGN_OR_RETURN(
        y, ctx.Reduce(FunctionOf(aggregate), found, {1}, forest.targets == 1));
  }
  if (aggregate == Aggregate::kAverage) {
    return ctx.Binary(Binary::kDivide, y,
                      static_cast<double>(table.roots.size()));
  }
  return WithoutNone(ctx, y, aggregate);
}

absl::StatusOr<std::vector<double>> ReadBase(NodeContext& ctx) {
  if (!ctx.has_attribute("base_values_as_tensor")) {
    return ctx.Floats("base_values", {});
  }
  ASSIGN_OR_RETURN(HostTensor base,
                   ctx.TensorAttribute("base_values_as_tensor"));
  return std::move(base.numbers);
}

absl::StatusOr<ValueId> PlusBase(NodeContext& ctx, ValueId scores,
                                 std::vector<double> base) {
  if (base.empty()) return scores;
  const int64_t count = ctx.shape(scores)[1];
  if (static_cast<int64_t>(base.size()) != count) {
    return ctx.Refuse("'base_values' has ", base.size(), " numbers and needs ",
                      count);
  }
  ASSIGN_OR_RETURN(const ValueId added,
                   Listed(ctx, ctx.dtype(scores), {count}, std::move(base)));
  return ctx.Binary(Binary::kAdd, scores, added);
}

absl::Status CheckTargets(const NodeContext& ctx, int64_t targets) {
  if (targets >= 1 && targets <= kMaxListedNumbers) return absl::OkStatus();
  return ctx.Refuse("n_targets ", targets, " must be from 1 to ",
                    kMaxListedNumbers);
}

absl::Status LowerTreeRegressor(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, TreeRows(ctx));
  ASSIGN_OR_RETURN(const int64_t targets, ctx.Int("n_targets", 1));
  RETURN_IF_ERROR(CheckTargets(ctx, targets));
  ASSIGN_OR_RETURN(
      const int aggregate,
      Choice(ctx, "aggregate_function", {"SUM", "AVERAGE", "MIN", "MAX"}));
  constexpr Aggregate kAggregates[] = {Aggregate::kSum, Aggregate::kAverage,
                                       Aggregate::kMin, Aggregate::kMax};
  Ensemble ensemble{.forest = {}, .aggregate = kAggregates[aggregate]};
  ASSIGN_OR_RETURN(ensemble.forest, ReadNodeLists(ctx, "target", targets));
  ASSIGN_OR_RETURN(const ScoreTransform transform, ReadTransform(ctx));
  ASSIGN_OR_RETURN(std::vector<double> base, ReadBase(ctx));
  ASSIGN_OR_RETURN(const ValueId scores, EnsembleScores(ctx, x, ensemble));
  ASSIGN_OR_RETURN(const ValueId sum, PlusBase(ctx, scores, std::move(base)));
  ASSIGN_OR_RETURN(const ValueId typed, ctx.Cast(sum, DType::kFloat32));
  // ONNX Runtime transforms the only target by no other function.
  if (targets == 1 && transform != ScoreTransform::kProbit) {
    return Finish(ctx, typed);
  }
  return Finish(ctx, Transformed(ctx, typed, transform));
}

absl::Status LowerTreeEnsemble(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, TreeRows(ctx));
  ASSIGN_OR_RETURN(const int64_t targets, ctx.Int("n_targets", 1));
  RETURN_IF_ERROR(CheckTargets(ctx, targets));
  ASSIGN_OR_RETURN(const int64_t aggregate, ctx.Int("aggregate_function", 1));
  ASSIGN_OR_RETURN(const int64_t transform, ctx.Int("post_transform", 0));
  if (aggregate < 0 || aggregate > 3 || transform < 0 || transform > 4) {
    return ctx.Refuse("aggregate_function ", aggregate,
                      " must be from 0 to 3 and post_transform ", transform,
                      " from 0 to 4");
  }
  Ensemble ensemble{.forest = {},
                    .aggregate = static_cast<Aggregate>(aggregate)};
  ASSIGN_OR_RETURN(ensemble.forest, ReadTreeEnsemble(ctx));
  ASSIGN_OR_RETURN(const ValueId scores, EnsembleScores(ctx, x, ensemble));
  if (targets == 1 && transform != 4) return Finish(ctx, scores);
  return Finish(
      ctx, Transformed(ctx, scores, static_cast<ScoreTransform>(transform)));
}

// Facts about the weights of a classifier with two classes.
struct BinaryScores {
  bool one_class = false;  // only one class has weights
  bool positive = true;    // no weight is below 0
  bool second = false;     // the second class has weights
};

BinaryScores ReadBinary(const TreeForest& forest) {
  BinaryScores binary;
  bool first = false;
  for (const LeafWeight& weight : forest.weights) {
    (weight.target == 0 ? first : binary.second) = true;
    binary.positive = binary.positive && weight.value >= 0;
  }
  binary.one_class = first != binary.second;
  return binary;
}

// Sets the outputs of a classifier with two classes of which one has weights:
// its score decides, at 0.5 if all weights are at least 0, else at 0. Weights
// of the first class are the score of the second, and the scores of both follow
// from it. Beside weights of the second class the first has a score of 0. That
// is what ONNX Runtime computes, and what converters rely on.
absl::Status SetBinary(NodeContext& ctx, ValueId scores,
                       const ClassLabels& labels, const BinaryScores& binary) {
  ASSIGN_OR_RETURN(const ScoreTransform transform, ReadTransform(ctx));
  ASSIGN_OR_RETURN(std::vector<double> base, ReadBase(ctx));
  if (base.size() > (binary.second ? 0u : 1u)) {
    return ctx.Unsupported("base_values with ", base.size(),
                           " numbers where only one of two classes has ",
                           "weights are not");
  }
  ASSIGN_OR_RETURN(
      const ValueId column,
      SliceAxis(ctx, scores, {.axis = 1, .start = binary.second ? 1 : 0}));
  ASSIGN_OR_RETURN(const ValueId score, PlusBase(ctx, column, std::move(base)));
  ASSIGN_OR_RETURN(const ValueId flat,
                   ctx.Reshape(score, {ctx.shape(score)[0]}));
  ASSIGN_OR_RETURN(
      const ValueId above,
      ctx.Binary(Binary::kGreater, flat, binary.positive ? 0.5 : 0.0));
  ASSIGN_OR_RETURN(const ValueId places, ctx.Cast(above, DType::kInt64));
  RETURN_IF_ERROR(SetLabels(ctx, places, labels));
  ASSIGN_OR_RETURN(const ValueId both,
                   binary.second
                       ? Transformed(ctx, scores, transform)
                       : BothScores(ctx, score, transform, !binary.positive));
  ctx.Set(1, both);
  return absl::OkStatus();
}

absl::Status LowerTreeClassifier(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, TreeRows(ctx));
  ASSIGN_OR_RETURN(const ClassLabels labels,
                   ReadLabels(ctx, "classlabels_int64s"));
  const int64_t classes = labels.count();
  Ensemble ensemble;
  ASSIGN_OR_RETURN(ensemble.forest, ReadNodeLists(ctx, "class", classes));
  ASSIGN_OR_RETURN(const ValueId sums, EnsembleScores(ctx, x, ensemble));
  ASSIGN_OR_RETURN(ValueId scores, ctx.Cast(sums, DType::kFloat32));
  const BinaryScores binary = ReadBinary(ensemble.forest);
  if (classes == 2 && binary.one_class) {
    return SetBinary(ctx, scores, labels, binary);
  }
  ASSIGN_OR_RETURN(std::vector<double> base, ReadBase(ctx));
  ASSIGN_OR_RETURN(scores, PlusBase(ctx, scores, std::move(base)));
  ASSIGN_OR_RETURN(const ValueId places, LargestPlace(ctx, scores));
  RETURN_IF_ERROR(SetLabels(ctx, places, labels));
  ASSIGN_OR_RETURN(const ScoreTransform transform, ReadTransform(ctx));
  ASSIGN_OR_RETURN(const ValueId y, Transformed(ctx, scores, transform));
  ctx.Set(1, y);
  return absl::OkStatus();
}

}  // namespace

absl::Span<const OperatorEntry> TreeOperators() {
  static constexpr absl::string_view kFamily = "trees";
  static const OperatorEntry rows[] = {
      {kMl, "TreeEnsemble", kFamily, kShapes, LowerTreeEnsemble},
      {kMl, "TreeEnsembleClassifier", kFamily, kShapes, LowerTreeClassifier},
      {kMl, "TreeEnsembleRegressor", kFamily, kShapes, LowerTreeRegressor},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
