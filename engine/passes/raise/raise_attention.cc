// Recognises softmax(scale * q k^T + mask) v over batches or heads. Simplify
// has already put the scale into the first product, and transposes into its
// flags.
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/passes/raise/raise.h"

namespace gpupool::engine {
namespace {

// The largest number that hides a key from a query: added to a score, it leaves
// nothing of it.
constexpr double kHidden = -1e20;

// The scores before the softmax.
struct Scores {
  Node product;  // a copy: the batched product of q and k
  ValueId mask;  // is added to it; invalid: none
  // The alternative to a mask: the score is `fill` where `condition` equals
  // `hidden_where`.
  ValueId condition;
  bool hidden_where = true;
  double fill = 0;
};

std::optional<Node> ProductOf(const Sweep& sweep, ValueId id) {
  const Node* node = sweep.Producer(id, Op::kBatchMatMul);
  if (node == nullptr || !sweep.IsOnlyReaderOf(id)) return std::nullopt;
  return *node;
}

std::optional<Scores> MatchSum(const Sweep& sweep, const Node& sum) {
  for (const size_t operand : {size_t{0}, size_t{1}}) {
    const auto product = ProductOf(sweep, sum.inputs[operand]);
    if (product.has_value() &&
        sweep.shape(sum.inputs[operand]) == sweep.shape(sum.outputs[0])) {
      return Scores{.product = *product, .mask = sum.inputs[1 - operand]};
    }
  }
  return std::nullopt;
}

std::optional<Scores> MatchWhere(const Sweep& sweep, const Node& where) {
  for (const size_t operand : {size_t{1}, size_t{2}}) {
    const auto product = ProductOf(sweep, where.inputs[operand]);
    const auto fill = sweep.Number(where.inputs[3 - operand]);
    if (!product.has_value() || !fill.has_value() || *fill > kHidden ||
        sweep.shape(where.inputs[operand]) != sweep.shape(where.outputs[0])) {
      continue;
    }
    return Scores{.product = *product,
                  .condition = where.inputs[0],
                  .hidden_where = operand == 2,
                  .fill = *fill};
  }
  return std::nullopt;
}

std::optional<Scores> MatchScores(const Sweep& sweep, ValueId id) {
  if (const auto product = ProductOf(sweep, id)) {
    return Scores{.product = *product};
  }
  const Node* node = sweep.Producer(id);
  if (node == nullptr || !sweep.IsOnlyReaderOf(id)) return std::nullopt;
  if (node->op == Op::kWhere) return MatchWhere(sweep, *node);
  const bool sum =
      node->op == Op::kAdd ||
      (node->op == Op::kBinary &&
       node->get<BinaryAttributes>().function == BinaryFunction::kAdd);
  return sum ? MatchSum(sweep, *node) : std::nullopt;
}

// Returns the value with its last two axes swapped. A value that is a transpose
// itself is read before that transpose.
absl::StatusOr<ValueId> SwapLastTwo(Sweep& sweep, ValueId id) {
  std::vector<int> permutation(static_cast<size_t>(sweep.shape(id).rank()));
  std::iota(permutation.begin(), permutation.end(), 0);
  if (const Node* before = sweep.Producer(id, Op::kTranspose)) {
    permutation = before->get<TransposeAttributes>().permutation;
    id = before->inputs[0];
  }
  const size_t rank = permutation.size();
  std::swap(permutation[rank - 2], permutation[rank - 1]);
  return sweep.Emit(Op::kTranspose, {id}, TransposeAttributes{permutation});
}

// Returns a value with one or two leading axes as [B, H, ...].
absl::StatusOr<ValueId> WithHeads(Sweep& sweep, ValueId id) {
  const Shape& shape = sweep.shape(id);
  if (shape.rank() == 4) return id;
  return sweep.Reshape(id, Shape{1, shape[0], shape[1], shape[2]});
}

// Returns whether q, k and v have elements and one or two leading axes, of the
// same sizes.
bool Agree(const Sweep& sweep, ValueId q, ValueId k, ValueId v) {
  const int rank = sweep.shape(q).rank();
  if (rank != 3 && rank != 4) return false;
  if (sweep.shape(q).elements() == 0) return false;
  for (const ValueId other : {k, v}) {
    const Shape& shape = sweep.shape(other);
    if (shape.rank() != rank || shape.elements() == 0) return false;
    for (int axis = 0; axis < rank - 2; ++axis) {
      if (shape[axis] != sweep.shape(q)[axis]) return false;
    }
  }
  return IsFloating(sweep.value(q).dtype);
}

// Returns whether a constant hides exactly the keys that causal attention
// hides. Its last two axes are those of the scores, queries and keys; the
// others must have one cell. With `others_are_zero` all other numbers must be
// 0.
template <typename IsHiddenNumber>
bool HidesTheFuture(const Value& constant, const Shape& scores,
                    IsHiddenNumber hidden, bool others_are_zero) {
  const int64_t queries = scores[scores.rank() - 2];
  const int64_t keys = scores[scores.rank() - 1];
  const Shape& shape = constant.shape;
  if (constant.kind != ValueKind::kConstant || shape.rank() < 2 ||
      shape.elements() != queries * keys || shape[shape.rank() - 1] != keys ||
      constant.constant.size() != static_cast<size_t>(queries * keys)) {
    return false;
  }
  for (int64_t i = 0; i < queries; ++i) {
    for (int64_t j = 0; j < keys; ++j) {
      const double x = constant.constant[static_cast<size_t>(i * keys + j)];
      if (hidden(x) != (j > i + keys - queries)) return false;
      if (!hidden(x) && others_are_zero && x != 0) return false;
    }
  }
  return true;
}

bool IsCausal(const Sweep& sweep, const Scores& scores, const Shape& shape) {
  // A query without any key would differ: attention gives zeros, softmax does
  // not.
  if (shape[shape.rank() - 2] > shape[shape.rank() - 1]) return false;
  if (scores.mask.valid()) {
    return HidesTheFuture(
        sweep.value(scores.mask), shape, [](double x) { return x <= kHidden; },
        true);
  }
  if (!scores.condition.valid()) return false;
  return HidesTheFuture(
      sweep.value(scores.condition), shape,
      [&scores](double x) { return (x != 0) == scores.hidden_where; }, false);
}

// Returns the value to add to the scores; invalid when there is none.
absl::StatusOr<ValueId> MaskOf(Sweep& sweep, const Scores& scores,
                               DType dtype) {
  if (!scores.condition.valid()) return scores.mask;
  const ValueId fill = sweep.Scalar(dtype, scores.fill);
  const ValueId zero = sweep.Scalar(dtype, 0);
  return sweep.Emit(Op::kWhere,
                    {scores.condition, scores.hidden_where ? fill : zero,
                     scores.hidden_where ? zero : fill});
}

struct AttentionMatch {
  Scores scores;
  ValueId q, k, v;
};

// Finds the pattern that ends in the node. The operands are returned as [...,
// T, D], [..., S, D], [..., S, E].
absl::StatusOr<std::optional<AttentionMatch>> Find(Sweep& sweep,
                                                   const Node& node) {
  const auto& outer = node.get<BatchMatMulAttributes>();
  const Node* softmax = sweep.Producer(node.inputs[0], Op::kSoftmax);
  if (outer.transpose_a || outer.scale != 1 || softmax == nullptr ||
      !sweep.IsOnlyReaderOf(node.inputs[0])) {
    return std::nullopt;
  }
  const auto scores = MatchScores(sweep, softmax->inputs[0]);
  if (!scores.has_value()) return std::nullopt;
  const auto& inner = scores->product.get<BatchMatMulAttributes>();
  AttentionMatch match{*scores, scores->product.inputs[0],
                       scores->product.inputs[1], node.inputs[1]};
  if (!Agree(sweep, match.q, match.k, match.v)) return std::nullopt;
  if (scores->mask.valid() &&
      sweep.shape(scores->mask).rank() > sweep.shape(match.q).rank()) {
    return std::nullopt;
  }
  if (inner.transpose_a) {
    ASSIGN_OR_RETURN(match.q, SwapLastTwo(sweep, match.q));
  }
  if (!inner.transpose_b) {
    ASSIGN_OR_RETURN(match.k, SwapLastTwo(sweep, match.k));
  }
  if (outer.transpose_b) {
    ASSIGN_OR_RETURN(match.v, SwapLastTwo(sweep, match.v));
  }
  return match;
}

absl::Status RaiseNode(Sweep& sweep, Node& node, bool for_gradient) {
  if (node.op != Op::kBatchMatMul) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::optional<AttentionMatch> match,
                   Find(sweep, node));
  if (!match.has_value()) return absl::OkStatus();
  AttentionAttributes attributes;
  attributes.scale = match->scores.product.get<BatchMatMulAttributes>().scale;
  attributes.with_lse = for_gradient;
  const Shape shape = sweep.shape(match->scores.product.outputs[0]);
  attributes.causal = IsCausal(sweep, match->scores, shape);
  ValueIds inputs;
  for (const ValueId id : {match->q, match->k, match->v}) {
    ASSIGN_OR_RETURN(const ValueId operand, WithHeads(sweep, id));
    inputs.push_back(operand);
  }
  if (!attributes.causal) {
    ASSIGN_OR_RETURN(const ValueId mask,
                     MaskOf(sweep, match->scores, sweep.value(match->q).dtype));
    if (mask.valid()) inputs.push_back(mask);
  }
  ASSIGN_OR_RETURN(const ValueId heads,
                   sweep.Emit(Op::kAttention, inputs, attributes));
  ASSIGN_OR_RETURN(const ValueId y,
                   sweep.Reshape(heads, sweep.shape(node.outputs[0])));
  sweep.Replace(node, y);
  return absl::OkStatus();
}

}  // namespace

absl::Status RaiseAttention(Sweep& sweep, Node& node) {
  return RaiseNode(sweep, node, false);
}

absl::Status RaiseAttentionForGradient(Sweep& sweep, Node& node) {
  return RaiseNode(sweep, node, true);
}

}  // namespace gpupool::engine
