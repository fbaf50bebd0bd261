// Lowers GridSample and RoiAlign, which read images between their cells.
//
// Along each axis a coordinate becomes a few cells with weights. Cells are rows
// of [N * H * W, C]. They are gathered, and summed with the products of their
// weights.
#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"

namespace gpupool::engine::onnx_import {
namespace {

using Unary = UnaryFunction;
using Binary = BinaryFunction;

// One cell along one axis for each sample, with its weight. Cell numbers are
// floating but whole.
struct Tap {
  ValueId cell;
  ValueId weight;
};
using Taps = std::vector<Tap>;

enum class Outside : uint8_t { kZeros, kBorder, kReflection };

struct Axis {
  int64_t size = 1;
  Outside outside = Outside::kZeros;
  bool align_corners = false;
};

// Clamps x to the cells of an axis.
absl::StatusOr<ValueId> Held(NodeContext& ctx, ValueId x, int64_t size) {
  return ctx.Unary(Unary::kClip, x, 0, static_cast<double>(size - 1));
}

// Adds a * x + b.
absl::StatusOr<ValueId> Affine(NodeContext& ctx, double a, ValueId x,
                               double b) {
  ASSIGN_OR_RETURN(const ValueId scaled, ctx.Binary(Binary::kMultiply, x, a));
  return ctx.Binary(Binary::kAdd, scaled, b);
}

// Mirrors x at the ends of the axis until it lies inside. This is a triangle
// wave.
absl::StatusOr<ValueId> Mirrored(NodeContext& ctx, ValueId x,
                                 const Axis& axis) {
  // The ends are the middles of the outermost cells, or lie half a cell further
  // out.
  const double low = axis.align_corners ? 0 : -0.5;
  const double span = static_cast<double>(axis.size) - 1 - 2 * low;
  if (span == 0) return ctx.Binary(Binary::kMultiply, x, 0.0);
  ASSIGN_OR_RETURN(const ValueId from_low,
                   ctx.Binary(Binary::kSubtract, x, low));
  // These steps compute x modulo two spans in floating point.
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
                                    const Axis& axis) {
  if (axis.outside == Outside::kZeros) return x;
  if (axis.outside == Outside::kReflection) {
    ASSIGN_OR_RETURN(x, Mirrored(ctx, x, axis));
  }
  return Held(ctx, x, axis.size);
}

// Clamps the cell of a tap. If that changes the cell, the weight becomes 0.
absl::StatusOr<Tap> Guarded(NodeContext& ctx, const Tap& tap,
                            const Axis& axis) {
  ASSIGN_OR_RETURN(const ValueId held, Held(ctx, tap.cell, axis.size));
  ASSIGN_OR_RETURN(const ValueId inside,
                   ctx.Binary(Binary::kEqual, held, tap.cell));
  const ValueId zero = ctx.Scalar(ctx.dtype(tap.weight), 0);
  ASSIGN_OR_RETURN(const ValueId weight,
                   ctx.Emit(Op::kWhere, {inside, tap.weight, zero}));
  return Tap{held, weight};
}

absl::StatusOr<Taps> NearestTaps(NodeContext& ctx, ValueId x,
                                 const Axis& axis) {
  ASSIGN_OR_RETURN(x, MovedInside(ctx, x, axis));
  ASSIGN_OR_RETURN(const ValueId cell, ctx.Unary(Unary::kRound, x));
  ASSIGN_OR_RETURN(const Tap tap,
                   Guarded(ctx, {cell, ctx.Scalar(ctx.dtype(x), 1)}, axis));
  return Taps{tap};
}

absl::StatusOr<Taps> LinearTaps(NodeContext& ctx, ValueId x, const Axis& axis) {
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

// Returns four taps. Padding moves the cells here, not the coordinate.
absl::StatusOr<Taps> CubicTaps(NodeContext& ctx, ValueId x, const Axis& axis) {
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

// Adds int64 numbers 0, factor, 2 * factor, ... of shape [size, 1, 1].
absl::StatusOr<ValueId> Firsts(NodeContext& ctx, int64_t size, int64_t factor) {
  RETURN_IF_ERROR(ReserveNumbers(ctx, size));
  ASSIGN_OR_RETURN(const Shape shape, MakeShape(ctx, {size, 1, 1}));
  HostTensor firsts{DType::kInt64, shape, {}};
  for (int64_t i = 0; i < size; ++i) {
    firsts.numbers.push_back(static_cast<double>(i * factor));
  }
  return ctx.Constant(std::move(firsts));
}

struct Image {
  ValueId rows;   // [N * H * W, C]
  ValueId first;  // int64 [samples, 1, 1]: first row of the sample's image
  int64_t n, c, h, w;
  // Whether the largest weighted cell counts and not their sum, as ONNX defines
  // RoiAlign's mode "max".
  bool maximum = false;
};

absl::StatusOr<Image> ReadImage(NodeContext& ctx, ValueId x) {
  const Shape shape = ctx.shape(x);
  Image image{{}, {}, shape[0], shape[1], shape[2], shape[3]};
  // Channels go last, so that one row holds all channels of a cell.
  ASSIGN_OR_RETURN(const ValueId last, ctx.Transpose(x, {0, 2, 3, 1}));
  ASSIGN_OR_RETURN(image.rows,
                   ctx.Reshape(last, {image.n * image.h * image.w, image.c}));
  return image;
}

// Adds the sum or the maximum over all pairs of taps, [samples, A, B, C]. Taps
// must broadcast to [samples, A, B].
absl::StatusOr<ValueId> GatherTaps(NodeContext& ctx, const Image& image,
                                   const Taps& vertical,
                                   const Taps& horizontal) {
  ValueId result;
  for (const Tap& y : vertical) {
    ASSIGN_OR_RETURN(const ValueId y_cell, ctx.Cast(y.cell, DType::kInt64));
    ASSIGN_OR_RETURN(
        const ValueId line,
        ctx.Binary(Binary::kMultiply, y_cell, static_cast<double>(image.w)));
    ASSIGN_OR_RETURN(const ValueId start,
                     ctx.Binary(Binary::kAdd, line, image.first));
    for (const Tap& x : horizontal) {
      ASSIGN_OR_RETURN(const ValueId x_cell, ctx.Cast(x.cell, DType::kInt64));
      ASSIGN_OR_RETURN(const ValueId row,
                       ctx.Binary(Binary::kAdd, start, x_cell));
      ASSIGN_OR_RETURN(
          const ValueId cells,
          ctx.Emit(Op::kGather, {image.rows, row}, AxisAttributes{0}));
      ASSIGN_OR_RETURN(const ValueId weight,
                       ctx.Binary(Binary::kMultiply, y.weight, x.weight));
      std::vector<int64_t> dims = Dims(ctx.shape(weight));
      dims.push_back(1);
      ASSIGN_OR_RETURN(const ValueId column, ctx.Reshape(weight, dims));
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
  }
  return result;
}

using TapRule = absl::StatusOr<Taps> (*)(NodeContext&, ValueId, const Axis&);

absl::StatusOr<TapRule> ReadTapRule(const NodeContext& ctx) {
  // Opset 20 renamed bilinear to linear, and bicubic to cubic.
  ASSIGN_OR_RETURN(const int mode, Choice(ctx, "mode",
                                          {"bilinear", "linear", "bicubic",
                                           "cubic", "nearest"}));
  return mode < 2 ? LinearTaps : mode < 4 ? CubicTaps : NearestTaps;
}

absl::StatusOr<Axis> ReadAxis(const NodeContext& ctx) {
  Axis axis;
  ASSIGN_OR_RETURN(
      const int padding,
      Choice(ctx, "padding_mode", {"zeros", "border", "reflection"}));
  ASSIGN_OR_RETURN(const int64_t align, ctx.Int("align_corners", 0));
  axis.align_corners = align != 0;
  constexpr Outside kOutsides[] = {Outside::kZeros, Outside::kBorder,
                                   Outside::kReflection};
  axis.outside = kOutsides[padding];
  return axis;
}

// Converts column `which` of the grid, -1 ... 1 over the image, to cell
// coordinates.
absl::StatusOr<ValueId> Coordinates(NodeContext& ctx, ValueId grid, int which,
                                    const Axis& axis) {
  ASSIGN_OR_RETURN(const ValueId g, TakeRow(ctx, grid, 3, which));
  const auto size = static_cast<double>(axis.size);
  return axis.align_corners ? Affine(ctx, (size - 1) / 2, g, (size - 1) / 2)
                            : Affine(ctx, size / 2, g, (size - 1) / 2);
}

absl::Status LowerGridSample(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const ValueId given, ctx.Input(1));
  RETURN_IF_ERROR(RequireFloating(ctx, x));
  if (ctx.rank(x) != 4 || ctx.rank(given) != 4) {
    return ctx.Unsupported("anything but images is not: the input is ",
                           ctx.shape(x).ToString());
  }
  const Shape grid_shape = ctx.shape(given);
  if (grid_shape[0] != ctx.shape(x)[0] || grid_shape[3] != 2) {
    return ctx.Refuse("the grid ", grid_shape.ToString(),
                      " does not fit the images ", ctx.shape(x).ToString());
  }
  ASSIGN_OR_RETURN(const ValueId grid, ctx.Cast(given, ctx.dtype(x)));
  ASSIGN_OR_RETURN(const TapRule taps, ReadTapRule(ctx));
  ASSIGN_OR_RETURN(Axis axis, ReadAxis(ctx));
  ASSIGN_OR_RETURN(Image image, ReadImage(ctx, x));
  axis.size = image.w;
  ASSIGN_OR_RETURN(const ValueId x_at, Coordinates(ctx, grid, 0, axis));
  ASSIGN_OR_RETURN(const Taps horizontal, taps(ctx, x_at, axis));
  axis.size = image.h;
  ASSIGN_OR_RETURN(const ValueId y_at, Coordinates(ctx, grid, 1, axis));
  ASSIGN_OR_RETURN(const Taps vertical, taps(ctx, y_at, axis));
  ASSIGN_OR_RETURN(image.first, Firsts(ctx, image.n, image.h * image.w));
  ASSIGN_OR_RETURN(const ValueId y,
                   GatherTaps(ctx, image, vertical, horizontal));
  return Finish(ctx, ctx.Transpose(y, {0, 3, 1, 2}));
}

struct Regions {
  ValueId boxes;                  // [R, 4]: x1, y1, x2, y2 in cells
  ValueId images;                 // int64 [R]
  int64_t height = 1, width = 1;  // bins
  int64_t down = 1, across = 1;   // samples of a bin
  bool half_pixel = true;
  bool maximum = false;
};

// The coordinates of all samples along one axis, [R, bins * samples], and their
// weights. Samples more than one cell outside of the image have weight 0.
struct Samples {
  ValueId at, weight;
};

struct Bins {
  int corner = 0;     // column of `boxes` with the axis's begin
  int64_t count = 1;  // number of samples
  int64_t size = 1;   // cells of the image
};

absl::StatusOr<Samples> BinSamples(NodeContext& ctx, const Regions& regions,
                                   const Bins& bins) {
  const DType dtype = ctx.dtype(regions.boxes);
  ASSIGN_OR_RETURN(
      const ValueId begin,
      SliceAxis(ctx, regions.boxes, {.axis = 1, .start = bins.corner}));
  ASSIGN_OR_RETURN(
      const ValueId end,
      SliceAxis(ctx, regions.boxes, {.axis = 1, .start = bins.corner + 2}));
  ASSIGN_OR_RETURN(ValueId length, ctx.Binary(Binary::kSubtract, end, begin));
  // Without half pixels a region is at least one cell long.
  if (!regions.half_pixel) {
    ASSIGN_OR_RETURN(length, ctx.Binary(Binary::kMaximum, length, 1.0));
  }
  const auto count = static_cast<double>(bins.count);
  ASSIGN_OR_RETURN(const Shape shape, MakeShape(ctx, {1, bins.count}));
  RETURN_IF_ERROR(ReserveNumbers(ctx, bins.count));
  // Samples lie in the middles of equal parts.
  HostTensor parts{dtype, shape, {}};
  for (double i = 0; i < count; ++i) parts.numbers.push_back((i + 0.5) / count);
  ASSIGN_OR_RETURN(
      const ValueId along,
      ctx.Binary(Binary::kMultiply, length, ctx.Constant(std::move(parts))));
  ASSIGN_OR_RETURN(const ValueId at, Plus(ctx, along, begin));
  ASSIGN_OR_RETURN(
      const ValueId held,
      ctx.Unary(Unary::kClip, at, -1, static_cast<double>(bins.size)));
  ASSIGN_OR_RETURN(const ValueId near, ctx.Binary(Binary::kEqual, held, at));
  ASSIGN_OR_RETURN(const ValueId weight, ctx.Cast(near, dtype));
  ASSIGN_OR_RETURN(const ValueId inside, Held(ctx, at, bins.size));
  return Samples{inside, weight};
}

// Returns linear taps of the samples in a shape [R, A, 1] or [R, 1, B].
absl::StatusOr<Taps> SampleTaps(NodeContext& ctx, const Samples& samples,
                                int64_t size, bool vertical) {
  ASSIGN_OR_RETURN(Taps taps, LinearTaps(ctx, samples.at, {size}));
  const Shape shape = ctx.shape(samples.at);
  const int64_t down[] = {shape[0], shape[1], 1};
  const int64_t across[] = {shape[0], 1, shape[1]};
  for (Tap& tap : taps) {
    ASSIGN_OR_RETURN(const ValueId weight,
                     ctx.Binary(Binary::kMultiply, tap.weight, samples.weight));
    ASSIGN_OR_RETURN(tap.weight, ctx.Reshape(weight, vertical ? down : across));
    ASSIGN_OR_RETURN(tap.cell, ctx.Reshape(tap.cell, vertical ? down : across));
  }
  return taps;
}

// Pools all regions to [R, C, height, width].
absl::StatusOr<ValueId> AlignRegions(NodeContext& ctx, Image image,
                                     const Regions& regions) {
  const Bins rows{1, regions.height * regions.down, image.h};
  const Bins columns{0, regions.width * regions.across, image.w};
  ASSIGN_OR_RETURN(const Samples y, BinSamples(ctx, regions, rows));
  ASSIGN_OR_RETURN(const Samples x, BinSamples(ctx, regions, columns));
  ASSIGN_OR_RETURN(const Taps vertical, SampleTaps(ctx, y, image.h, true));
  ASSIGN_OR_RETURN(const Taps horizontal, SampleTaps(ctx, x, image.w, false));
  ASSIGN_OR_RETURN(const ValueId starts,
                   ctx.Binary(Binary::kMultiply, regions.images,
                              static_cast<double>(image.h * image.w)));
  const int64_t count = ctx.shape(regions.images).elements();
  ASSIGN_OR_RETURN(image.first, ctx.Reshape(starts, {count, 1, 1}));
  ASSIGN_OR_RETURN(const ValueId cells,
                   GatherTaps(ctx, image, vertical, horizontal));
  ASSIGN_OR_RETURN(
      const ValueId bins,
      ctx.Reshape(cells, {count, regions.height, regions.down, regions.width,
                          regions.across, image.c}));
  ASSIGN_OR_RETURN(
      const ValueId pooled,
      ctx.Reduce(regions.maximum ? ReduceFunction::kMax : ReduceFunction::kMean,
                 bins, {2, 4}, false));
  return ctx.Transpose(pooled, {0, 3, 1, 2});
}

constexpr int64_t kMaxSamples = 1024;

// Pools each region with its own number of samples per bin. Without a sampling
// ratio this number depends on the region's size. The regions must therefore be
// known, and each becomes its own small graph.
absl::StatusOr<ValueId> AlignAdaptively(NodeContext& ctx, const Image& image,
                                        const Regions& regions) {
  ASSIGN_OR_RETURN(const HostTensor boxes,
                   ctx.KnownValue(regions.boxes, "the regions"));
  ValueIds parts;
  for (int64_t r = 0; r < boxes.shape[0]; ++r) {
    const double* box = &boxes.numbers[static_cast<size_t>(r) * 4];
    int64_t samples[2];
    for (int axis = 0; axis < 2; ++axis) {
      double length = box[axis + 2] - box[axis];
      if (!regions.half_pixel) length = std::max(length, 1.0);
      const int64_t bins = axis == 0 ? regions.width : regions.height;
      const double count = std::ceil(length / static_cast<double>(bins));
      // The negation also refuses NaN.
      if (!(count <= kMaxSamples)) {
        return ctx.Refuse("region ", r, " needs ", count,
                          " samples per bin; the limit is ", kMaxSamples);
      }
      samples[axis] = std::max<int64_t>(1, static_cast<int64_t>(count));
    }
    Regions one = regions;
    ASSIGN_OR_RETURN(one.boxes,
                     SliceAxis(ctx, regions.boxes, {.axis = 0, .start = r}));
    ASSIGN_OR_RETURN(one.images,
                     SliceAxis(ctx, regions.images, {.axis = 0, .start = r}));
    one.across = samples[0];
    one.down = samples[1];
    ASSIGN_OR_RETURN(const ValueId part, AlignRegions(ctx, image, one));
    parts.push_back(part);
  }
  return Concat(ctx, parts, 0);
}

absl::StatusOr<Regions> ReadRegions(NodeContext& ctx, DType dtype) {
  Regions regions;
  ASSIGN_OR_RETURN(const ValueId boxes, ctx.Input(1));
  ASSIGN_OR_RETURN(const ValueId images, ctx.Input(2));
  if (ctx.rank(boxes) != 2 || ctx.shape(boxes)[1] != 4 ||
      ctx.shape(images).elements() != ctx.shape(boxes)[0]) {
    return ctx.Refuse("rois ", ctx.shape(boxes).ToString(),
                      " must be [regions, 4] and batch_indices ",
                      ctx.shape(images).ToString(), " [regions]");
  }
  ASSIGN_OR_RETURN(const int mode, Choice(ctx, "mode", {"avg", "max"}));
  ASSIGN_OR_RETURN(const int coordinates,
                   Choice(ctx, "coordinate_transformation_mode",
                          {"half_pixel", "output_half_pixel"}));
  ASSIGN_OR_RETURN(regions.height, ctx.Int("output_height", 1));
  ASSIGN_OR_RETURN(regions.width, ctx.Int("output_width", 1));
  ASSIGN_OR_RETURN(const double scale, ctx.Float("spatial_scale", 1));
  // Before opset 16 the only mode was output_half_pixel.
  regions.half_pixel = coordinates == 0 && ctx.opset() >= 16;
  regions.maximum = mode == 1;
  if (regions.height < 1 || regions.width < 1 || regions.height > kMaxSamples ||
      regions.width > kMaxSamples) {
    return ctx.Refuse("output ", regions.height, " x ", regions.width,
                      " must be from 1 to ", kMaxSamples);
  }
  ASSIGN_OR_RETURN(const ValueId typed, ctx.Cast(boxes, dtype));
  ASSIGN_OR_RETURN(regions.boxes,
                   Affine(ctx, scale, typed, regions.half_pixel ? -0.5 : 0));
  ASSIGN_OR_RETURN(regions.images, ctx.Cast(images, DType::kInt64));
  return regions;
}

absl::Status LowerRoiAlign(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  RETURN_IF_ERROR(RequireRank(ctx, x, 4, 4));
  RETURN_IF_ERROR(RequireFloating(ctx, x));
  ASSIGN_OR_RETURN(const int64_t samples, ctx.Int("sampling_ratio", 0));
  if (samples < 0 || samples > kMaxSamples) {
    return ctx.Refuse("sampling_ratio ", samples, " must be from 0 to ",
                      kMaxSamples);
  }
  ASSIGN_OR_RETURN(Regions regions, ReadRegions(ctx, ctx.dtype(x)));
  regions.down = samples;
  regions.across = samples;
  ASSIGN_OR_RETURN(Image image, ReadImage(ctx, x));
  image.maximum = regions.maximum;
  return Finish(ctx, samples == 0 ? AlignAdaptively(ctx, image, regions)
                                  : AlignRegions(ctx, image, regions));
}

constexpr OperatorNeeds kShapes = OperatorNeeds::kShapesOnly;
constexpr OperatorNeeds kNumbers = OperatorNeeds::kNumbers;

}  // namespace

absl::Span<const OperatorEntry> SamplingOperators() {
  static constexpr absl::string_view kFamily = "image";
  static const OperatorEntry rows[] = {
      {"", "GridSample", kFamily, kShapes, LowerGridSample},
      {"", "RoiAlign", kFamily, kNumbers, LowerRoiAlign},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
