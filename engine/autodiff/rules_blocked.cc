// Gradients of products with blocked codes.
#include <vector>

#include "engine/autodiff/formula.h"
#include "engine/autodiff/rules.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::autodiff {
namespace {

using Unary = UnaryFunction;
using Binary = BinaryFunction;

// Writes the unpacked weights of a blocked product as nodes.
class UnpackedWeights {
 public:
  explicit UnpackedWeights(RuleContext& context)
      : context_(context),
        builder_(context.builder()),
        formula_(&builder_),
        attributes_(context.node().get<BlockedMatMulAttributes>()) {}

  // Returns codes - zeros, [columns, blocks, cells].
  absl::StatusOr<ValueId> Centred();
  // Returns the scales or a value of their shape as [columns, blocks, 1].
  absl::StatusOr<ValueId> PerBlock(ValueId x) {
    const Shape& shape = builder_.shape(x);
    return Shaped(x, {shape[0], shape[1], 1});
  }
  absl::StatusOr<ValueId> Shaped(ValueId x, const std::vector<int64_t>& dims) {
    ASSIGN_OR_RETURN(const Shape shape, Shape::Create(dims));
    return builder_.EmitOne(Op::kReshape, {x}, ShapeAttributes{shape});
  }
  Formula& formula() { return formula_; }

 private:
  // Returns packed codes [columns, blocks, bytes] as numbers, one for each
  // code along the last axis.
  absl::StatusOr<ValueId> Numbers(ValueId packed);
  absl::StatusOr<ValueId> Zeros();

  RuleContext& context_;
  GraphBuilder& builder_;
  Formula formula_;
  const BlockedMatMulAttributes attributes_;
};

absl::StatusOr<ValueId> UnpackedWeights::Numbers(ValueId packed) {
  const Shape shape = builder_.shape(packed);
  const ValueId bytes = formula_.Cast(packed, DType::kFloat32);
  if (attributes_.bits == 8) return bytes;
  const ValueId ratio = formula_.Binary(Binary::kMultiply, bytes,
                                        formula_.Number(1.0 / 16, bytes));
  const ValueId high = formula_.Unary(Unary::kFloor, ratio);
  const ValueId shifted =
      formula_.Binary(Binary::kMultiply, high, formula_.Number(16, high));
  const ValueId low = formula_.Binary(Binary::kSubtract, bytes, shifted);
  RETURN_IF_ERROR(formula_.status());
  const std::vector<int64_t> single{shape[0], shape[1], shape[2], 1};
  ASSIGN_OR_RETURN(const ValueId first, Shaped(low, single));
  ASSIGN_OR_RETURN(const ValueId second, Shaped(high, single));
  ASSIGN_OR_RETURN(
      const ValueId both,
      builder_.EmitOne(Op::kConcat, {first, second}, AxisAttributes{3}));
  return Shaped(both, {shape[0], shape[1], 2 * shape[2]});
}

absl::StatusOr<ValueId> UnpackedWeights::Zeros() {
  if (!attributes_.with_zeros) {
    return formula_.Number(1 << (attributes_.bits - 1), context_.input(2));
  }
  const ValueId given = context_.input(3);
  if (builder_.value(given).dtype == DType::kFloat32) return PerBlock(given);
  const Shape packed = builder_.shape(given);
  ASSIGN_OR_RETURN(const ValueId row, Shaped(given, {packed[0], 1, packed[1]}));
  ASSIGN_OR_RETURN(const ValueId numbers, Numbers(row));
  const Shape all = builder_.shape(numbers);
  const int64_t blocks = context_.shape(context_.input(2))[1];
  SliceAttributes first;
  first.starts = {0, 0, 0};
  first.steps = {1, 1, 1};
  first.sizes = {all[0], 1, blocks};
  ASSIGN_OR_RETURN(const ValueId zeros,
                   builder_.EmitOne(Op::kSlice, {numbers}, first));
  return Shaped(zeros, {all[0], blocks, 1});
}

absl::StatusOr<ValueId> UnpackedWeights::Centred() {
  ASSIGN_OR_RETURN(const ValueId codes, Numbers(context_.input(1)));
  ASSIGN_OR_RETURN(const ValueId zeros, Zeros());
  const ValueId centred = formula_.Binary(Binary::kSubtract, codes, zeros);
  RETURN_IF_ERROR(formula_.status());
  return centred;
}

}  // namespace

// Differentiates y = a W^T with W = (codes - zeros) * scales: da = dy W, and
// with dW = dy^T a the scales get the sums over a block of dW * (codes -
// zeros), and zeros that are real numbers the sums of -dW * scales.
absl::Status BlockedMatMulRule(RuleContext& context) {
  GraphBuilder& builder = context.builder();
  const ValueId scales = context.input(2);
  const Shape a = context.shape(context.input(0));
  const Shape blocks = context.shape(scales);
  UnpackedWeights weights(context);
  Formula& formula = weights.formula();
  ASSIGN_OR_RETURN(const ValueId centred, weights.Centred());
  ASSIGN_OR_RETURN(const ValueId scale, weights.PerBlock(scales));
  if (context.needs(0)) {
    const ValueId real = formula.Binary(Binary::kMultiply, centred, scale);
    RETURN_IF_ERROR(formula.status());
    ASSIGN_OR_RETURN(const ValueId w, weights.Shaped(real, {blocks[0], a[1]}));
    RETURN_IF_ERROR(
        context.Emit(0, Op::kMatMul, {context.dy(), w}, MatMulAttributes{}));
  }
  if (!context.needs(2) && !context.needs(3)) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      const ValueId dw,
      builder.EmitOne(Op::kMatMul, {context.dy(), context.input(0)},
                      MatMulAttributes{.transpose_a = true, .epilogue = {}}));
  ASSIGN_OR_RETURN(
      const ValueId by_block,
      weights.Shaped(dw, {blocks[0], blocks[1], a[1] / blocks[1]}));
  if (context.needs(2)) {
    const ValueId products =
        formula.Binary(Binary::kMultiply, by_block, centred);
    const ValueId sums = formula.Reduce(ReduceFunction::kSum, products, {2});
    context.Set(2, formula.Reshape(sums, blocks));
  }
  if (context.needs(3)) {
    const ValueId sums = formula.Reduce(ReduceFunction::kSum, by_block, {2});
    const ValueId scaled = formula.Binary(Binary::kMultiply, sums, scale);
    const ValueId negative = formula.Unary(Unary::kNegate, scaled);
    context.Set(3, formula.Reshape(negative, blocks));
  }
  return formula.status();
}

}  // namespace gpupool::engine::autodiff
