// Gradients of batched products, attention, response normalisation, log
// softmax and transposed convolution.
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/autodiff/formula.h"
#include "engine/autodiff/rules.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::autodiff {
namespace {

// Most queries and keys whose positions may be constants of a graph.
constexpr int64_t kMostPositions = int64_t{1} << 24;

// Reshapes to two axes: all but the last become one.
absl::StatusOr<ValueId> Flatten(GraphBuilder& builder, ValueId id) {
  const Shape shape = builder.shape(id);
  const int64_t last = shape[shape.rank() - 1];
  const int64_t dims[] = {last == 0 ? 0 : shape.elements() / last, last};
  ASSIGN_OR_RETURN(const Shape flat, Shape::CreateMaybeEmpty(dims));
  return builder.EmitOne(Op::kReshape, {id}, ShapeAttributes{flat});
}

// Returns whether one matrix b serves all matrices of a. Its gradient is then
// one product over all rows, instead of a product for each matrix and a sum.
bool SharesMatrix(const RuleContext& context,
                  const BatchMatMulAttributes& matmul) {
  const Shape& a = context.shape(context.input(0));
  const Shape& b = context.shape(context.input(1));
  const Shape& dy = context.shape(context.dy());
  if (matmul.transpose_a || a.rank() != dy.rank() || a.rank() <= 2) {
    return false;
  }
  for (int axis = 0; axis + 2 < a.rank(); ++axis) {
    if (a[axis] != dy[axis]) return false;
  }
  for (int axis = 0; axis + 2 < b.rank(); ++axis) {
    if (b[axis] != 1) return false;
  }
  return true;
}

absl::StatusOr<ValueId> Product(GraphBuilder& builder, const ValueIds& operands,
                                const BatchMatMulAttributes& matmul) {
  return builder.EmitOne(Op::kBatchMatMul, operands, matmul);
}

// Differentiates y = s A' B', where A' is A or A transposed, and B' likewise:
// dA' = s dy B'^T and dB' = s A'^T dy.
absl::Status BatchMatMulRule(RuleContext& context) {
  const auto matmul = context.node().get<BatchMatMulAttributes>();
  GraphBuilder& builder = context.builder();
  Formula formula(&builder);
  ValueId a = context.input(0);
  const ValueId b = context.input(1);
  ValueId dy = context.dy();
  const Shape a_shape = context.shape(a);
  const Shape b_shape = context.shape(b);
  const bool ta = matmul.transpose_a;
  const bool tb = matmul.transpose_b;
  const double s = matmul.scale;
  if (context.needs(0)) {
    ASSIGN_OR_RETURN(const ValueId da,
                     ta ? Product(builder, {b, dy}, {tb, true, s})
                        : Product(builder, {dy, b}, {false, !tb, s}));
    context.Set(0, formula.ReduceTo(da, a_shape));
  }
  if (context.needs(1)) {
    if (SharesMatrix(context, matmul)) {
      ASSIGN_OR_RETURN(a, Flatten(builder, a));
      ASSIGN_OR_RETURN(dy, Flatten(builder, dy));
    }
    ASSIGN_OR_RETURN(const ValueId db,
                     tb ? Product(builder, {dy, a}, {true, ta, s})
                        : Product(builder, {a, dy}, {!ta, false, s}));
    context.Set(1, formula.ReduceTo(db, b_shape));
  }
  return formula.status();
}

// Returns the bool [T, S] whether query i sees key j in causal attention, which
// aligns the last query with the last key.
absl::StatusOr<ValueId> SeenBefore(GraphBuilder& builder, const Shape& scores) {
  const int64_t queries = scores[2];
  const int64_t keys = scores[3];
  if (queries > kMostPositions || keys > kMostPositions) {
    return absl::InvalidArgumentError(
        absl::StrCat("causal attention over scores ", scores.ToString(),
                     " has no gradient of its mask: at most ", kMostPositions,
                     " queries and keys are possible"));
  }
  std::vector<double> last(static_cast<size_t>(queries));
  std::iota(last.begin(), last.end(), static_cast<double>(keys - queries));
  std::vector<double> key(static_cast<size_t>(keys));
  std::iota(key.begin(), key.end(), 0);
  return Formula(&builder).Binary(
      BinaryFunction::kLessOrEqual,
      builder.Constant({DType::kInt64, {1, keys}}, std::move(key)),
      builder.Constant({DType::kInt64, {queries, 1}}, std::move(last)));
}

// Sets the gradient of the mask, which is added to the scores: that of the
// scores, summed over the axes along which the mask is repeated. With the
// weights p = exp(scores - lse) it is p * (dy v^T - sum(dy * y)).
absl::Status MaskRule(RuleContext& context) {
  const auto attention = context.node().get<AttentionAttributes>();
  GraphBuilder& builder = context.builder();
  Formula formula(&builder);
  const ValueId mask = context.input(3);
  const DType wide = builder.value(context.output(1)).dtype;
  const auto widened = [&](ValueId id) { return formula.Cast(id, wide); };
  ASSIGN_OR_RETURN(const ValueId product,
                   Product(builder, {context.input(0), context.input(1)},
                           {false, true, attention.scale}));
  ASSIGN_OR_RETURN(const ValueId dp,
                   Product(builder, {context.dy(), context.input(2)},
                           {.transpose_b = true}));
  const Shape scores = context.shape(product);
  if (scores.elements() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "attention of layer '", context.node().source,
        "' has no scores, so its mask has no gradient: ", scores.ToString()));
  }
  const Shape rows{scores[0], scores[1], scores[2], 1};
  const ValueId sum =
      formula.Binary(BinaryFunction::kAdd, widened(product), widened(mask));
  const ValueId lse = formula.Reshape(context.output(1), rows);
  const ValueId logarithm = formula.Binary(BinaryFunction::kSubtract, sum, lse);
  ValueId p = formula.Unary(UnaryFunction::kExp, logarithm);
  const ValueId zero = formula.Number(0, p);
  // A query that sees no key has an lse of minus infinity.
  const ValueId is_blind = formula.Binary(
      BinaryFunction::kEqual, lse,
      formula.Number(-std::numeric_limits<double>::infinity(), lse));
  p = formula.Where(is_blind, zero, p);
  if (attention.causal) {
    ASSIGN_OR_RETURN(const ValueId seen, SeenBefore(builder, scores));
    p = formula.Where(seen, p, zero);
  }
  const ValueId weighted =
      formula.Binary(BinaryFunction::kMultiply, widened(context.dy()),
                     widened(context.output(0)));
  const ValueId mean = formula.Reduce(ReduceFunction::kSum, weighted, {3});
  const ValueId gradient = formula.Binary(
      BinaryFunction::kMultiply, p,
      formula.Binary(BinaryFunction::kSubtract, widened(dp), mean));
  context.Set(3, formula.Cast(formula.ReduceTo(gradient, context.shape(mask)),
                              builder.value(mask).dtype));
  return formula.status();
}

absl::Status AttentionRule(RuleContext& context) {
  const Node& node = context.node();
  if (node.outputs.size() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("attention of layer '", node.source,
                     "' was built without lse and has no gradient"));
  }
  if (node.inputs.size() > 3 && context.needs(3)) {
    RETURN_IF_ERROR(MaskRule(context));
  }
  ValueIds inputs{context.dy(),     context.input(0),  context.input(1),
                  context.input(2), context.output(0), context.output(1)};
  if (node.inputs.size() > 3) inputs.push_back(context.input(3));
  ASSIGN_OR_RETURN(
      const ValueIds gradients,
      context.builder().Emit(Op::kAttentionGrad, inputs, node.attributes));
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (context.needs(i)) context.Set(i, gradients[i]);
  }
  return absl::OkStatus();
}

// Differentiates a transposed convolution. y = J(w)^T x, with J(w) the
// convolution as a matrix, is linear in both: dx = J(w) dy, and dw is the
// weight gradient of the convolution of dy whose own gradient is x.
absl::Status TransposedConvolutionRule(RuleContext& context) {
  const ValueId x = context.input(0);
  const ValueId w = context.input(1);
  const auto grad = context.node().get<Conv2dGradAttributes>();
  RETURN_IF_ERROR(context.Emit(0, Op::kConv2d, {context.dy(), w}, grad.conv));
  return context.Emit(
      1, Op::kConv2dWeightGrad, {x, context.dy()},
      Conv2dGradAttributes{.conv = grad.conv, .result = context.shape(w)});
}

}  // namespace

absl::Status ProductRule(RuleContext& context) {
  const Node& node = context.node();
  switch (node.op) {
    case Op::kBatchMatMul:
      return BatchMatMulRule(context);
    case Op::kAttention:
      return AttentionRule(context);
    case Op::kLrn:
      return context.Emit(0, Op::kLrnGrad, {context.dy(), context.input(0)},
                          node.attributes);
    case Op::kLogSoftmax:
      return context.Emit(0, Op::kLogSoftmaxGrad,
                          {context.dy(), context.output(0)});
    default:
      return TransposedConvolutionRule(context);
  }
}

}  // namespace gpupool::engine::autodiff
