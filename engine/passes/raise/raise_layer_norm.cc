// Recognises layer norm over the last axis in steps. The normalised value
// becomes a layer norm with gamma 1 and beta 0. The product and the sum that
// follow are then absorbed as gamma and beta.
#include <optional>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/passes/raise/raise.h"

namespace gpupool::engine {
namespace {

bool IsBinary(const Node* node, BinaryFunction function) {
  return node != nullptr && node->op == Op::kBinary &&
         node->get<BinaryAttributes>().function == function;
}

bool IsUnary(const Node* node, UnaryFunction function) {
  return node != nullptr && node->op == Op::kUnary &&
         node->get<UnaryAttributes>().function == function;
}

// Returns x if `id` is the mean of x over the last axis with that axis kept.
ValueId MeanOf(const Sweep& sweep, ValueId id) {
  const Node* node = sweep.Producer(id, Op::kReduce);
  if (node == nullptr) return {};
  const auto& reduce = node->get<ReduceAttributes>();
  const int last = sweep.shape(node->inputs[0]).rank() - 1;
  const bool fits = reduce.function == ReduceFunction::kMean &&
                    reduce.keep_dims && reduce.axes.size() == 1 &&
                    reduce.axes[0] == last;
  return fits ? node->inputs[0] : ValueId{};
}

// Returns x if `id` is x minus its mean.
ValueId CentredOf(const Sweep& sweep, ValueId id) {
  const Node* node = sweep.Producer(id);
  if (!IsBinary(node, BinaryFunction::kSubtract)) return {};
  const ValueId x = node->inputs[0];
  return MeanOf(sweep, node->inputs[1]) == x ? x : ValueId{};
}

// Returns x if `id` is the square of x.
ValueId SquareOf(const Sweep& sweep, ValueId id) {
  const Node* node = sweep.Producer(id);
  if (IsBinary(node, BinaryFunction::kMultiply) &&
      node->inputs[0] == node->inputs[1]) {
    return node->inputs[0];
  }
  if (IsBinary(node, BinaryFunction::kPower) &&
      sweep.Number(node->inputs[1]) == 2.0) {
    return node->inputs[0];
  }
  return {};
}

// Returns v if `id` is the square root of v.
ValueId RootOf(const Sweep& sweep, ValueId id) {
  const Node* node = sweep.Producer(id);
  if (IsUnary(node, UnaryFunction::kSqrt)) return node->inputs[0];
  if (IsBinary(node, BinaryFunction::kPower) &&
      sweep.Number(node->inputs[1]) == 0.5) {
    return node->inputs[0];
  }
  return {};
}

// Returns v if `id` is 1 / sqrt(v).
ValueId InverseRootOf(const Sweep& sweep, ValueId id) {
  const Node* node = sweep.Producer(id);
  if (IsUnary(node, UnaryFunction::kReciprocal)) {
    return RootOf(sweep, node->inputs[0]);
  }
  if (IsBinary(node, BinaryFunction::kDivide) &&
      sweep.Number(node->inputs[0]) == 1.0) {
    return RootOf(sweep, node->inputs[1]);
  }
  if (IsBinary(node, BinaryFunction::kPower) &&
      sweep.Number(node->inputs[1]) == -0.5) {
    return node->inputs[0];
  }
  return {};
}

struct Normalised {
  ValueId x;
  double epsilon = 0;
};

// Matches `centred` divided by the root of v. v must be the variance of the
// same x plus epsilon.
std::optional<Normalised> MatchNormalised(const Sweep& sweep, ValueId centred,
                                          ValueId v) {
  if (!v.valid()) return std::nullopt;
  const ValueId x = CentredOf(sweep, centred);
  const Node* sum = sweep.Producer(v);
  if (!x.valid() || !IsBinary(sum, BinaryFunction::kAdd)) return std::nullopt;
  // Exporters compute the centred value once, or again for the variance.
  for (const size_t operand : {size_t{0}, size_t{1}}) {
    const auto epsilon = sweep.Number(sum->inputs[1 - operand]);
    const ValueId squares = MeanOf(sweep, sum->inputs[operand]);
    if (!epsilon.has_value() || *epsilon < 0 || !squares.valid()) continue;
    const ValueId root = SquareOf(sweep, squares);
    if (!root.valid()) continue;
    if (root == centred || CentredOf(sweep, root) == x) {
      return Normalised{x, *epsilon};
    }
  }
  return std::nullopt;
}

std::optional<Normalised> MatchNormalised(const Sweep& sweep,
                                          const Node& node) {
  if (IsBinary(&node, BinaryFunction::kDivide)) {
    return MatchNormalised(sweep, node.inputs[0],
                           RootOf(sweep, node.inputs[1]));
  }
  if (!IsBinary(&node, BinaryFunction::kMultiply)) return std::nullopt;
  for (const size_t operand : {size_t{0}, size_t{1}}) {
    const auto found =
        MatchNormalised(sweep, node.inputs[operand],
                        InverseRootOf(sweep, node.inputs[1 - operand]));
    if (found.has_value()) return found;
  }
  return std::nullopt;
}

absl::StatusOr<bool> RaiseNormalised(Sweep& sweep, Node& node,
                                     bool for_gradient) {
  const auto found = MatchNormalised(sweep, node);
  if (!found.has_value()) return false;
  const Value& x = sweep.value(found->x);
  if (!IsFloating(x.dtype) || x.shape.rank() < 1 || x.shape.elements() == 0) {
    return false;
  }
  const TensorType row{x.dtype, {x.shape[x.shape.rank() - 1]}};
  const ValueId gamma = sweep.Constant(row, {1});
  const ValueId beta = sweep.Constant(row, {0});
  ASSIGN_OR_RETURN(const ValueId y,
                   sweep.Emit(Op::kLayerNorm, {found->x, gamma, beta},
                              NormAttributes{.epsilon = found->epsilon,
                                             .with_statistics = for_gradient}));
  sweep.Replace(node, y);
  return true;
}

// Absorbs norm * gamma or norm + beta if the norm has none yet.
absl::StatusOr<bool> TakeRow(Sweep& sweep, Node& node, size_t operand) {
  const bool product = IsBinary(&node, BinaryFunction::kMultiply);
  const ValueId y = node.inputs[operand];
  const ValueId row = node.inputs[1 - operand];
  const Node* norm = sweep.Producer(y, Op::kLayerNorm);
  if (norm == nullptr || !sweep.IsOnlyReaderOf(y) ||
      sweep.value(y).type() != sweep.value(node.outputs[0]).type()) {
    return false;
  }
  const Shape columns = sweep.shape(norm->inputs[1]);
  const Shape& shape = sweep.shape(row);
  if (shape.elements() != columns[0] || shape.rank() < 1 ||
      shape[shape.rank() - 1] != columns[0]) {
    return false;
  }
  // A gamma after a beta would scale the beta, too.
  const bool plain = sweep.Number(norm->inputs[2]) == 0.0;
  if (!plain || (product && sweep.Number(norm->inputs[1]) != 1.0)) {
    return false;
  }
  ValueIds inputs = norm->inputs;
  const Attributes attributes = norm->attributes;
  ASSIGN_OR_RETURN(inputs[product ? 1 : 2], sweep.Reshape(row, columns));
  ASSIGN_OR_RETURN(const ValueId whole,
                   sweep.Emit(Op::kLayerNorm, inputs, attributes));
  sweep.Replace(node, whole);
  return true;
}

absl::Status RaiseFrom(Sweep& sweep, Node& node, bool for_gradient) {
  const bool row = IsBinary(&node, BinaryFunction::kMultiply) ||
                   IsBinary(&node, BinaryFunction::kAdd);
  for (const size_t operand : {size_t{0}, size_t{1}}) {
    if (!row) break;
    ASSIGN_OR_RETURN(const bool taken, TakeRow(sweep, node, operand));
    if (taken) return absl::OkStatus();
  }
  return RaiseNormalised(sweep, node, for_gradient).status();
}

}  // namespace

absl::Status RaiseLayerNorm(Sweep& sweep, Node& node) {
  return RaiseFrom(sweep, node, false);
}

absl::Status RaiseLayerNormForGradient(Sweep& sweep, Node& node) {
  return RaiseFrom(sweep, node, true);
}

}  // namespace gpupool::engine
