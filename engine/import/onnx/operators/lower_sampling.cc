// Lowers GridSample and RoiAlign, which read images between their cells, and
// AffineGrid, which makes grids for GridSample.
#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"
#include "engine/import/onnx/operators/sampling_taps.h"

namespace gpupool::engine::onnx_import {
namespace {

using Unary = UnaryFunction;
using Binary = BinaryFunction;

using TapRule = absl::StatusOr<Taps> (*)(NodeContext&, ValueId,
                                         const SampledAxis&);

absl::StatusOr<TapRule> ReadTapRule(const NodeContext& ctx) {
  // Opset 20 renamed bilinear to linear, and bicubic to cubic.
  ASSIGN_OR_RETURN(const int mode, Choice(ctx, "mode",
                                          {"bilinear", "linear", "bicubic",
                                           "cubic", "nearest"}));
  return mode < 2 ? LinearTaps : mode < 4 ? CubicTaps : NearestTaps;
}

absl::StatusOr<SampledAxis> ReadSampledAxis(const NodeContext& ctx) {
  SampledAxis axis;
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
                                    const SampledAxis& axis) {
  ASSIGN_OR_RETURN(const ValueId g,
                   TakeRow(ctx, grid, ctx.rank(grid) - 1, which));
  const auto size = static_cast<double>(axis.size);
  return axis.align_corners ? Affine(ctx, (size - 1) / 2, g, (size - 1) / 2)
                            : Affine(ctx, size / 2, g, (size - 1) / 2);
}

// Checks that the grid [N, ..., r] fits x [N, C, ...] with r spatial axes.
absl::Status CheckGrid(const NodeContext& ctx, ValueId x, ValueId grid) {
  RETURN_IF_ERROR(RequireFloating(ctx, x));
  RETURN_IF_ERROR(RequireRank(ctx, x, 3, 5));
  const Shape& shape = ctx.shape(grid);
  const int axes = ctx.rank(x) - 2;
  if (shape.rank() == axes + 2 && shape[0] == ctx.shape(x)[0] &&
      shape[axes + 1] == axes) {
    return absl::OkStatus();
  }
  return ctx.Refuse("the grid ", shape.ToString(), " does not fit the images ",
                    ctx.shape(x).ToString());
}

absl::Status LowerGridSample(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const ValueId given, ctx.Input(1));
  RETURN_IF_ERROR(CheckGrid(ctx, x, given));
  ASSIGN_OR_RETURN(const ValueId grid, ctx.Cast(given, ctx.dtype(x)));
  ASSIGN_OR_RETURN(const TapRule rule, ReadTapRule(ctx));
  ASSIGN_OR_RETURN(SampledAxis axis, ReadSampledAxis(ctx));
  ASSIGN_OR_RETURN(SampledImage image, ReadImage(ctx, x));
  const int axes = ctx.rank(x) - 2;
  std::vector<Taps> taps(image.sizes.size());
  for (int i = 0; i < axes; ++i) {
    const auto at = static_cast<size_t>(i);
    axis.size = image.sizes[at];
    // The grid's last axis begins with the innermost axis of the image.
    ASSIGN_OR_RETURN(const ValueId cell,
                     Coordinates(ctx, grid, axes - 1 - i, axis));
    ASSIGN_OR_RETURN(taps[at], rule(ctx, cell, axis));
  }
  std::vector<int64_t> apart(image.sizes.size() + 1, 1);
  apart[0] = image.n;
  ASSIGN_OR_RETURN(const ValueId numbers, Positions(ctx, image.n));
  ASSIGN_OR_RETURN(image.number, ctx.Reshape(numbers, apart));
  ASSIGN_OR_RETURN(const ValueId y, GatherTaps(ctx, image, taps));
  return Finish(ctx, MoveFromLast(ctx, y, 1));
}

// Returns the middles of `size` cells, or their ends, spread from -1 to 1.
std::vector<double> SpreadPlaces(int64_t size, bool align_corners) {
  std::vector<double> places;
  const auto cells = static_cast<double>(size);
  for (double i = 0; i < cells; ++i) {
    if (align_corners) {
      places.push_back(size == 1 ? 0 : 2 * i / (cells - 1) - 1);
    } else {
      places.push_back((2 * i + 1) / cells - 1);
    }
  }
  return places;
}

// Adds the places of all cells, [1, cells, r + 1]. The innermost axis is first,
// and a 1 stands last.
absl::StatusOr<ValueId> Places(NodeContext& ctx,
                               absl::Span<const int64_t> sizes,
                               bool align_corners, DType dtype) {
  ASSIGN_OR_RETURN(const Shape cells, MakeShape(ctx, sizes));
  if (cells.elements() == 0) {
    return ctx.Refuse("an image of ", cells.ToString(), " has no cells");
  }
  const auto axes = static_cast<int64_t>(sizes.size());
  ASSIGN_OR_RETURN(const Shape shape,
                   MakeShape(ctx, {1, cells.elements(), axes + 1}));
  RETURN_IF_ERROR(ReserveNumbers(ctx, shape.elements()));
  std::vector<std::vector<double>> along;
  for (int64_t size : sizes) along.push_back(SpreadPlaces(size, align_corners));
  HostTensor places{dtype, shape, {}};
  places.numbers.reserve(static_cast<size_t>(shape.elements()));
  for (int64_t cell = 0; cell < cells.elements(); ++cell) {
    int64_t rest = cell;
    for (size_t axis = sizes.size(); axis-- > 0;) {
      const auto at = static_cast<size_t>(rest % sizes[axis]);
      places.numbers.push_back(along[axis][at]);
      rest /= sizes[axis];
    }
    places.numbers.push_back(1);
  }
  return ctx.Constant(std::move(places));
}

absl::Status LowerAffineGrid(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId theta, ctx.Input(0));
  ASSIGN_OR_RETURN(const std::vector<int64_t> size,
                   KnownInts(ctx, 1, "the size"));
  ASSIGN_OR_RETURN(const int64_t align, ctx.Int("align_corners", 0));
  RETURN_IF_ERROR(RequireFloating(ctx, theta));
  const Shape shape = ctx.shape(theta);
  const auto axes = static_cast<int64_t>(size.size()) - 2;
  if (axes < 2 || axes > 3 || shape.rank() != 3 || shape[0] != size[0] ||
      shape[1] != axes || shape[2] != axes + 1) {
    return ctx.Refuse("theta ", shape.ToString(), " does not fit a size of ",
                      size.size(), " numbers");
  }
  const absl::Span<const int64_t> spatial =
      absl::MakeConstSpan(size).subspan(2);
  ASSIGN_OR_RETURN(const ValueId places,
                   Places(ctx, spatial, align != 0, ctx.dtype(theta)));
  BatchMatMulAttributes product;
  product.transpose_b = true;
  ASSIGN_OR_RETURN(const ValueId grid,
                   ctx.Emit(Op::kBatchMatMul, {places, theta}, product));
  std::vector<int64_t> dims{size[0]};
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  dims.push_back(axes);
  return Finish(ctx, ctx.Reshape(grid, dims));
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
absl::StatusOr<ValueId> AlignRegions(NodeContext& ctx, SampledImage image,
                                     const Regions& regions) {
  const Bins rows{1, regions.height * regions.down, image.sizes[0]};
  const Bins columns{0, regions.width * regions.across, image.sizes[1]};
  ASSIGN_OR_RETURN(const Samples y, BinSamples(ctx, regions, rows));
  ASSIGN_OR_RETURN(const Samples x, BinSamples(ctx, regions, columns));
  ASSIGN_OR_RETURN(const Taps vertical,
                   SampleTaps(ctx, y, image.sizes[0], true));
  ASSIGN_OR_RETURN(const Taps horizontal,
                   SampleTaps(ctx, x, image.sizes[1], false));
  const int64_t count = ctx.shape(regions.images).elements();
  ASSIGN_OR_RETURN(image.number, ctx.Reshape(regions.images, {count, 1, 1}));
  ASSIGN_OR_RETURN(const ValueId cells,
                   GatherTaps(ctx, image, {vertical, horizontal}));
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
absl::StatusOr<ValueId> AlignAdaptively(NodeContext& ctx,
                                        const SampledImage& image,
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
  ASSIGN_OR_RETURN(SampledImage image, ReadImage(ctx, x));
  image.maximum = regions.maximum;
  return Finish(ctx, samples == 0 ? AlignAdaptively(ctx, image, regions)
                                  : AlignRegions(ctx, image, regions));
}

}  // namespace

absl::Span<const OperatorEntry> SamplingOperators() {
  static constexpr absl::string_view kFamily = "image";
  static const OperatorEntry rows[] = {
      {"", "AffineGrid", kFamily, kNumbers, LowerAffineGrid},
      {"", "GridSample", kFamily, kShapes, LowerGridSample},
      {"", "RoiAlign", kFamily, kNumbers, LowerRoiAlign},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
