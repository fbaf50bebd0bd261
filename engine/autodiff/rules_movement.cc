// Gradients of movement and indexing: elements move back, and elements that
// were read several times get the sum.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/autodiff/rules.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::autodiff {
namespace {

// Returns zeros of the value's type.
ValueId ZerosLike(RuleContext& context, ValueId id) {
  GraphBuilder& builder = context.builder();
  return builder.Constant(builder.value(id).type(), {0});
}

absl::Status TransposeRule(RuleContext& context) {
  const std::vector<int> permutation =
      context.node().get<TransposeAttributes>().permutation;
  TransposeAttributes inverse{std::vector<int>(permutation.size())};
  for (size_t i = 0; i < permutation.size(); ++i) {
    inverse.permutation[static_cast<size_t>(permutation[i])] =
        static_cast<int>(i);
  }
  return context.Emit(0, Op::kTranspose, {context.dy()}, inverse);
}

absl::Status ConcatRule(RuleContext& context) {
  const auto axis =
      static_cast<size_t>(context.node().get<AxisAttributes>().axis);
  int64_t begin = 0;
  for (size_t i = 0; i < context.node().inputs.size(); ++i) {
    const Shape x = context.shape(context.input(i));
    const auto rank = static_cast<size_t>(x.rank());
    SliceAttributes slice{std::vector<int64_t>(rank, 0),
                          std::vector<int64_t>(rank, 1),
                          {x.dims().begin(), x.dims().end()}};
    slice.starts[axis] = begin;
    begin += x[static_cast<int>(axis)];
    RETURN_IF_ERROR(context.Emit(i, Op::kSlice, {context.dy()}, slice));
  }
  return absl::OkStatus();
}

// Returns the tuples of a gather_nd with the batch's coordinates in front, so
// that they index the whole input.
absl::StatusOr<ValueId> WholeTuples(RuleContext& context, int batch_dims) {
  GraphBuilder& builder = context.builder();
  const ValueId indices = context.input(1);
  if (batch_dims == 0) return indices;
  const TensorType type = builder.value(indices).type();
  const int last = type.shape.rank() - 1;
  std::vector<int64_t> dims(type.shape.dims().begin(), type.shape.dims().end());
  dims.back() = batch_dims;
  ASSIGN_OR_RETURN(const Shape shape, Shape::CreateMaybeEmpty(dims));
  // The distances, in elements, between neighbours along each batch axis.
  std::vector<int64_t> strides(static_cast<size_t>(batch_dims));
  int64_t stride = 1;
  for (int axis = last; axis >= 0; --axis) {
    if (axis < batch_dims) strides[static_cast<size_t>(axis)] = stride;
    stride *= shape[axis];
  }
  std::vector<double> coordinates;
  for (int64_t i = 0; i < shape.elements(); ++i) {
    const auto axis = static_cast<int>(i % batch_dims);
    coordinates.push_back(static_cast<double>(
        i / strides[static_cast<size_t>(axis)] % shape[axis]));
  }
  const ValueId batch =
      builder.Constant({type.dtype, shape}, std::move(coordinates));
  return builder.EmitOne(Op::kConcat, {batch, indices}, AxisAttributes{last});
}

absl::Status GatherNdRule(RuleContext& context) {
  if (!context.needs(0)) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      const ValueId tuples,
      WholeTuples(context,
                  context.node().get<GatherNdAttributes>().batch_dims));
  return context.Emit(
      0, Op::kScatterNd,
      {ZerosLike(context, context.input(0)), tuples, context.dy()},
      ScatterAttributes{.reduction = ScatterReduction::kAdd});
}

// If several updates of a plain scatter hit one cell, each of them gets the
// cell's gradient, as in PyTorch.
absl::Status ScatterRule(RuleContext& context) {
  const Node& node = context.node();
  const auto scatter = node.get<ScatterAttributes>();
  const ValueId dy = context.dy();
  const ValueId indices = context.input(1);
  if (scatter.reduction == ScatterReduction::kAdd) {
    context.Set(0, dy);
  } else if (scatter.reduction != ScatterReduction::kNone) {
    return absl::InvalidArgumentError(
        absl::StrCat(OpName(node.op), " of layer '", node.source,
                     "' has a gradient only where it replaces or adds, not ",
                     "where it multiplies or takes the smaller or larger"));
  } else if (context.needs(0)) {
    RETURN_IF_ERROR(context.Emit(
        0, node.op, {dy, indices, ZerosLike(context, context.input(2))},
        scatter));
  }
  if (node.op == Op::kScatterNd) {
    return context.Emit(2, Op::kGatherNd, {dy, indices}, GatherNdAttributes{});
  }
  return context.Emit(2, Op::kGatherElements, {dy, indices},
                      AxisAttributes{scatter.axis});
}

// Adds dy to the cells at `indices`, along the axis of input 0, that were read.
absl::Status ScatterBack(RuleContext& context, int axis, ValueId indices) {
  if (!context.needs(0)) return absl::OkStatus();
  return context.Emit(
      0, Op::kScatterElements,
      {ZerosLike(context, context.input(0)), indices, context.dy()},
      ScatterAttributes{.axis = axis, .reduction = ScatterReduction::kAdd});
}

}  // namespace

absl::Status MovementRule(RuleContext& context) {
  const Node& node = context.node();
  const ValueId dy = context.dy();
  const Shape x = context.shape(context.input(0));
  switch (node.op) {
    case Op::kTranspose:
      return TransposeRule(context);
    case Op::kSlice:
      return context.Emit(0, Op::kSliceGrad, {dy},
                          SliceGradAttributes{node.get<SliceAttributes>(), x});
    case Op::kPad:
      return context.Emit(0, Op::kPadGrad, {dy}, node.attributes);
    case Op::kConcat:
      return ConcatRule(context);
    case Op::kGather:
      return context.Emit(
          0, Op::kGatherGrad, {dy, context.input(1)},
          GatherGradAttributes{node.get<AxisAttributes>().axis, x});
    case Op::kGatherElements:
      return ScatterBack(context, node.get<AxisAttributes>().axis,
                         context.input(1));
    case Op::kTopK:
      return ScatterBack(context, node.get<TopKAttributes>().axis,
                         context.output(1));
    case Op::kGatherNd:
      return GatherNdRule(context);
    case Op::kScatterElements:
    case Op::kScatterNd:
      return ScatterRule(context);
    default:
      return context.Emit(
          0, Op::kResizeGrad, {dy},
          ResizeGradAttributes{node.get<ResizeAttributes>(), x});
  }
}

}  // namespace gpupool::engine::autodiff
