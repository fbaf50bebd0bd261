#include "engine/import/onnx/operators/sampling_taps.h"

#include <utility>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/lowering_parts.h"

namespace gpupool::engine::onnx_import {
namespace {

using Unary = UnaryFunction;
using Binary = BinaryFunction;

// Mirrors x at the ends of the axis until it lies inside. This is a triangle
// wave.
absl::StatusOr<ValueId> Mirrored(NodeContext& ctx, ValueId x,
                                 const SampledAxis& axis) {
  // The ends are the middles of the outermost cells, or lie half a cell further
  // out.
  const double low = axis.align_corners ? 0 : -0.5;
  const double span = static_cast<double>(axis.size) - 1 - 2 * low;
  if (span == 0) return ctx.Binary(Binary::kMultiply, x, 0.0);
  ASSIGN_OR_RETURN(const ValueId from_low,
                   ctx.Binary(Binary::kSubtract, x, low));
  // The rest of x modulo two spans.
  ASSIGN_OR_RETURN(const ValueId turns,
                   ctx.Binary(Binary::kDivide, from_low, 2 * span));
  ASSIGN_OR_RETURN(const ValueId whole, ctx.Unary(Unary::kFloor, turns));
  ASSIGN_OR_RETURN(const ValueId passed,
                   ctx.Binary(Binary::kMultiply, whole, 2 * span));
  ASSIGN_OR_RETURN(const ValueId rest,
                   ctx.Binary(Binary::kSubtract, from_low, passed));
  ASSIGN_OR_RETURN(const ValueId centred,
                   ctx.Binary(Binary::kSubtract, rest, span));
  ASSIGN_OR_RETURN(const ValueId distance, ctx.Unary(Unary::kAbs, centred));
  return Affine(ctx, -1, distance, span + low);
}

// Moves a coordinate or a cell number inside the axis, if the padding mode asks
// for that.
absl::StatusOr<ValueId> MovedInside(NodeContext& ctx, ValueId x,
                                    const SampledAxis& axis) {
  if (axis.outside == Outside::kZeros) return x;
  if (axis.outside == Outside::kReflection) {
    ASSIGN_OR_RETURN(x, Mirrored(ctx, x, axis));
  }
  return Held(ctx, x, axis.size);
}

// Clamps the cell of a tap. If that changes the cell, the weight becomes 0.
absl::StatusOr<Tap> Guarded(NodeContext& ctx, const Tap& tap,
                            const SampledAxis& axis) {
  ASSIGN_OR_RETURN(const ValueId held, Held(ctx, tap.cell, axis.size));
  ASSIGN_OR_RETURN(const ValueId inside,
                   ctx.Binary(Binary::kEqual, held, tap.cell));
  const ValueId zero = ctx.Scalar(ctx.dtype(tap.weight), 0);
  ASSIGN_OR_RETURN(const ValueId weight,
                   ctx.Emit(Op::kWhere, {inside, tap.weight, zero}));
  return Tap{held, weight};
}

// Adds Keys' cubic kernel with a = -0.75 at distance |t - k|, for a tap k from
// -1 to 2 (Keys 1981, doi 10.1109/TASSP.1981.1163711).
absl::StatusOr<ValueId> CubicWeight(NodeContext& ctx, ValueId t, int k) {
  constexpr double a = -0.75;
  const bool inner = k == 0 || k == 1;
  ASSIGN_OR_RETURN(const ValueId d, k <= 0 ? ctx.Binary(Binary::kSubtract, t,
                                                        static_cast<double>(k))
                                           : Affine(ctx, -1, t, k));
  // Horner's scheme evaluates the polynomial of the distance.
  const double terms[2][4] = {{a, -5 * a, 8 * a, -4 * a},
                              {a + 2, -(a + 3), 0, 1}};
  const double* c = terms[inner ? 1 : 0];
  ASSIGN_OR_RETURN(ValueId sum, Affine(ctx, c[0], d, c[1]));
  for (int i = 2; i < 4; ++i) {
    ASSIGN_OR_RETURN(sum, ctx.Binary(Binary::kMultiply, sum, d));
    ASSIGN_OR_RETURN(sum, ctx.Binary(Binary::kAdd, sum, c[i]));
  }
  return sum;
}

// One combination of taps: the row of its cell, and the product of the weights.
struct Corner {
  ValueId row;     // int64
  ValueId weight;  // invalid: 1
};

// Combines every corner of the outer axes with every tap of one more axis of
// `size` cells.
absl::StatusOr<std::vector<Corner>> Combined(NodeContext& ctx,
                                             absl::Span<const Corner> outer,
                                             const Taps& taps, int64_t size) {
  ValueIds cells;
  for (const Tap& tap : taps) {
    ASSIGN_OR_RETURN(cells.emplace_back(), ctx.Cast(tap.cell, DType::kInt64));
  }
  std::vector<Corner> corners;
  for (const Corner& corner : outer) {
    ASSIGN_OR_RETURN(
        const ValueId start,
        ctx.Binary(Binary::kMultiply, corner.row, static_cast<double>(size)));
    for (size_t i = 0; i < taps.size(); ++i) {
      Corner next{{}, taps[i].weight};
      ASSIGN_OR_RETURN(next.row, ctx.Binary(Binary::kAdd, start, cells[i]));
      if (corner.weight.valid()) {
        ASSIGN_OR_RETURN(next.weight, ctx.Binary(Binary::kMultiply,
                                                 corner.weight, next.weight));
      }
      corners.push_back(next);
    }
  }
  return corners;
}

}  // namespace

absl::StatusOr<ValueId> Held(NodeContext& ctx, ValueId x, int64_t size) {
  return ctx.Unary(Unary::kClip, x, 0, static_cast<double>(size - 1));
}

absl::StatusOr<ValueId> Affine(NodeContext& ctx, double a, ValueId x,
                               double b) {
  ASSIGN_OR_RETURN(const ValueId scaled, ctx.Binary(Binary::kMultiply, x, a));
  return ctx.Binary(Binary::kAdd, scaled, b);
}

absl::StatusOr<Taps> NearestTaps(NodeContext& ctx, ValueId x,
                                 const SampledAxis& axis) {
  ASSIGN_OR_RETURN(x, MovedInside(ctx, x, axis));
  ASSIGN_OR_RETURN(const ValueId cell, ctx.Unary(Unary::kRound, x));
  ASSIGN_OR_RETURN(const Tap tap,
                   Guarded(ctx, {cell, ctx.Scalar(ctx.dtype(x), 1)}, axis));
  return Taps{tap};
}

absl::StatusOr<Taps> LinearTaps(NodeContext& ctx, ValueId x,
                                const SampledAxis& axis) {
  ASSIGN_OR_RETURN(x, MovedInside(ctx, x, axis));
  ASSIGN_OR_RETURN(const ValueId low, ctx.Unary(Unary::kFloor, x));
  ASSIGN_OR_RETURN(const ValueId high, ctx.Binary(Binary::kAdd, low, 1.0));
  ASSIGN_OR_RETURN(const ValueId to_high,
                   ctx.Binary(Binary::kSubtract, x, low));
  ASSIGN_OR_RETURN(const ValueId to_low, Affine(ctx, -1, to_high, 1));
  ASSIGN_OR_RETURN(const Tap first, Guarded(ctx, {low, to_low}, axis));
  ASSIGN_OR_RETURN(const Tap second, Guarded(ctx, {high, to_high}, axis));
  return Taps{first, second};
}

// Moves the cells inside by the padding mode, not the coordinate.
absl::StatusOr<Taps> CubicTaps(NodeContext& ctx, ValueId x,
                               const SampledAxis& axis) {
  ASSIGN_OR_RETURN(const ValueId low, ctx.Unary(Unary::kFloor, x));
  ASSIGN_OR_RETURN(const ValueId t, ctx.Binary(Binary::kSubtract, x, low));
  Taps taps;
  for (int k = -1; k <= 2; ++k) {
    ASSIGN_OR_RETURN(const ValueId cell,
                     ctx.Binary(Binary::kAdd, low, static_cast<double>(k)));
    ASSIGN_OR_RETURN(const ValueId inside, MovedInside(ctx, cell, axis));
    ASSIGN_OR_RETURN(const ValueId weight, CubicWeight(ctx, t, k));
    ASSIGN_OR_RETURN(const Tap tap, Guarded(ctx, {inside, weight}, axis));
    taps.push_back(tap);
  }
  return taps;
}

int64_t SampledImage::cells() const {
  int64_t product = 1;
  for (int64_t size : sizes) product *= size;
  return product;
}

absl::StatusOr<SampledImage> ReadImage(NodeContext& ctx, ValueId x) {
  SampledImage image;
  std::vector<int64_t> dims = Dims(ctx.shape(x));
  image.n = dims[0];
  image.c = dims[1];
  image.sizes.assign(dims.begin() + 2, dims.end());
  // Channels go last, so that one row holds all channels of a cell.
  ASSIGN_OR_RETURN(const ValueId last, MoveLast(ctx, x, 1));
  ASSIGN_OR_RETURN(image.rows,
                   ctx.Reshape(last, {image.n * image.cells(), image.c}));
  return image;
}

absl::StatusOr<ValueId> GatherTaps(NodeContext& ctx, const SampledImage& image,
                                   absl::Span<const Taps> axes) {
  // Images follow each other like the cells of one more axis.
  std::vector<Corner> corners{{image.number, {}}};
  for (size_t i = 0; i < axes.size(); ++i) {
    ASSIGN_OR_RETURN(corners, Combined(ctx, corners, axes[i], image.sizes[i]));
  }
  ValueId result;
  for (const Corner& corner : corners) {
    ASSIGN_OR_RETURN(
        const ValueId cells,
        ctx.Emit(Op::kGather, {image.rows, corner.row}, AxisAttributes{0}));
    std::vector<int64_t> dims = Dims(ctx.shape(corner.weight));
    dims.push_back(1);
    ASSIGN_OR_RETURN(const ValueId column, ctx.Reshape(corner.weight, dims));
    ASSIGN_OR_RETURN(const ValueId part,
                     ctx.Binary(Binary::kMultiply, cells, column));
    if (!result.valid()) {
      result = part;
    } else if (image.maximum) {
      ASSIGN_OR_RETURN(result, ctx.Binary(Binary::kMaximum, result, part));
    } else {
      ASSIGN_OR_RETURN(result, Plus(ctx, result, part));
    }
  }
  return result;
}

}  // namespace gpupool::engine::onnx_import
