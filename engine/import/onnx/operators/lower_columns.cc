// Lowers Col2Im, which adds up overlapping blocks of an image, and DeformConv,
// a product of weights with blocks that are gathered.
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"
#include "engine/import/onnx/operators/sampling_taps.h"
#include "engine/import/onnx/operators/window_attributes.h"

namespace gpupool::engine::onnx_import {
namespace {

using Binary = BinaryFunction;
using Sizes = std::vector<int64_t>;

// Returns how many blocks fit along each axis.
absl::StatusOr<Sizes> CountBlocks(const NodeContext& ctx,
                                  const SpatialWindow& window,
                                  const Sizes& image) {
  Sizes blocks;
  for (size_t i = 0; i < image.size(); ++i) {
    const int64_t padded = image[i] + window.begin[i] + window.end[i];
    if (image[i] < 1 || window.kernel[i] < 1 || padded < window.reach(i)) {
      return ctx.Refuse("a block that reaches over ", window.reach(i),
                        " cells does not fit axis ", i, " of ", image[i],
                        " cells with pads");
    }
    blocks.push_back((padded - window.reach(i)) / window.strides[i] + 1);
  }
  return blocks;
}

// Moves on to the next index in row-major order. Returns false after the last.
bool Next(Sizes& index, const Sizes& sizes) {
  for (size_t axis = sizes.size(); axis-- > 0;) {
    if (++index[axis] < sizes[axis]) return true;
    index[axis] = 0;
  }
  return false;
}

struct Blocks {
  SpatialWindow window;
  Sizes image;   // spatial sizes
  Sizes padded;  // the same with pads
  Sizes counts;  // of blocks
};

// Adds the place in the padded image of every cell of every block, int64
// [kernel cells * blocks, 1].
absl::StatusOr<ValueId> CellPlaces(NodeContext& ctx, const Blocks& blocks) {
  const SpatialWindow& window = blocks.window;
  ASSIGN_OR_RETURN(const Shape kernel, MakeShape(ctx, window.kernel));
  ASSIGN_OR_RETURN(const Shape counts, MakeShape(ctx, blocks.counts));
  ASSIGN_OR_RETURN(const Shape both,
                   MakeShape(ctx, {kernel.elements(), counts.elements()}));
  RETURN_IF_ERROR(ReserveNumbers(ctx, both.elements()));
  ASSIGN_OR_RETURN(const Shape shape, MakeShape(ctx, {both.elements(), 1}));
  HostTensor places{DType::kInt64, shape, {}};
  places.numbers.reserve(static_cast<size_t>(both.elements()));
  const size_t axes = blocks.image.size();
  Sizes cell(axes, 0);
  do {
    Sizes block(axes, 0);
    do {
      int64_t place = 0;
      for (size_t i = 0; i < axes; ++i) {
        place = place * blocks.padded[i] + block[i] * window.strides[i] +
                cell[i] * window.dilations[i];
      }
      places.numbers.push_back(static_cast<double>(place));
    } while (Next(block, blocks.counts));
  } while (Next(cell, window.kernel));
  return ctx.Constant(std::move(places));
}

absl::StatusOr<Blocks> ReadBlocks(NodeContext& ctx) {
  Blocks blocks;
  ASSIGN_OR_RETURN(blocks.image, KnownInts(ctx, 1, "the image's shape"));
  ASSIGN_OR_RETURN(const Sizes kernel, KnownInts(ctx, 2, "the block's shape"));
  if (kernel.size() != blocks.image.size() || kernel.empty()) {
    return ctx.Refuse("blocks of ", kernel.size(),
                      " axes do not fit images of ", blocks.image.size());
  }
  RETURN_IF_ERROR(MakeShape(ctx, blocks.image).status());
  ASSIGN_OR_RETURN(blocks.window, ReadWindow(ctx, {kernel, blocks.image}));
  ASSIGN_OR_RETURN(blocks.counts,
                   CountBlocks(ctx, blocks.window, blocks.image));
  for (size_t i = 0; i < blocks.image.size(); ++i) {
    blocks.padded.push_back(blocks.image[i] + blocks.window.begin[i] +
                            blocks.window.end[i]);
  }
  return blocks;
}

// Adds up all cells of the columns [rows, kernel cells * blocks] in the padded
// image, [rows, cells].
absl::StatusOr<ValueId> AddedUp(NodeContext& ctx, ValueId columns,
                                const Blocks& blocks) {
  ASSIGN_OR_RETURN(const Shape padded, MakeShape(ctx, blocks.padded));
  ASSIGN_OR_RETURN(const Shape shape,
                   MakeShape(ctx, {padded.elements(), ctx.shape(columns)[0]}));
  ASSIGN_OR_RETURN(const ValueId places, CellPlaces(ctx, blocks));
  ASSIGN_OR_RETURN(const ValueId cells, ctx.Transpose(columns, {1, 0}));
  ASSIGN_OR_RETURN(const ValueId zeros,
                   Filled(ctx, ctx.dtype(columns), shape, 0));
  ScatterAttributes scatter;
  scatter.reduction = ScatterReduction::kAdd;
  ASSIGN_OR_RETURN(const ValueId sums,
                   ctx.Emit(Op::kScatterNd, {zeros, places, cells}, scatter));
  return ctx.Transpose(sums, {1, 0});
}

absl::Status LowerCol2Im(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  RETURN_IF_ERROR(RequireRank(ctx, x, 3, 3));
  ASSIGN_OR_RETURN(const Blocks blocks, ReadBlocks(ctx));
  ASSIGN_OR_RETURN(const Shape kernel, MakeShape(ctx, blocks.window.kernel));
  ASSIGN_OR_RETURN(const Shape counts, MakeShape(ctx, blocks.counts));
  const Shape shape = ctx.shape(x);
  const int64_t cells = kernel.elements();
  if (cells == 0 || shape[1] % cells != 0 || shape[2] != counts.elements() ||
      shape.elements() == 0) {
    return ctx.Refuse("columns ", shape.ToString(), " must be [N, C * ", cells,
                      ", ", counts.elements(), "]");
  }
  const int64_t channels = shape[1] / cells;
  ASSIGN_OR_RETURN(
      const ValueId columns,
      ctx.Reshape(x, {shape[0] * channels, cells * counts.elements()}));
  ASSIGN_OR_RETURN(const ValueId sums, AddedUp(ctx, columns, blocks));
  std::vector<int64_t> dims{shape[0], channels};
  dims.insert(dims.end(), blocks.padded.begin(), blocks.padded.end());
  ASSIGN_OR_RETURN(ValueId y, ctx.Reshape(sums, dims));
  for (size_t i = 0; i < blocks.image.size(); ++i) {
    const AxisRange inside{static_cast<int>(i) + 2, blocks.window.begin[i],
                           blocks.image[i], 1};
    ASSIGN_OR_RETURN(y, SliceAxis(ctx, y, inside));
  }
  return Finish(ctx, y);
}

// A convolution whose cells are moved by offsets.
struct Deformed {
  ValueId x, w;
  SpatialWindow window;
  Sizes image, output;  // spatial
  int64_t groups = 1, offset_groups = 1;
  int64_t cells = 1, blocks = 1;  // of the kernel, of the output
  int64_t n = 1, c = 1, filters = 1;

  int64_t images() const { return n * offset_groups; }
};

absl::StatusOr<int64_t> ReadDivisor(const NodeContext& ctx,
                                    absl::string_view name, int64_t channels) {
  ASSIGN_OR_RETURN(const int64_t groups, ctx.Int(name, 1));
  if (groups < 1 || channels % groups != 0) {
    return ctx.Refuse(name, " ", groups, " does not divide ", channels,
                      " channels");
  }
  return groups;
}

absl::StatusOr<Deformed> ReadDeformed(NodeContext& ctx) {
  Deformed conv;
  ASSIGN_OR_RETURN(conv.x, ctx.Input(0));
  ASSIGN_OR_RETURN(conv.w, ctx.Input(1));
  RETURN_IF_ERROR(RequireFloating(ctx, conv.x));
  const Shape x = ctx.shape(conv.x), w = ctx.shape(conv.w);
  if (x.rank() != w.rank() || x.elements() == 0 || w.elements() == 0) {
    return ctx.Refuse("input ", x.ToString(), " and weights ", w.ToString(),
                      " do not fit");
  }
  WindowSource source;
  ASSIGN_OR_RETURN(source.input, SpatialSizes(ctx, conv.x));
  ASSIGN_OR_RETURN(source.kernel, SpatialSizes(ctx, conv.w));
  ASSIGN_OR_RETURN(conv.window, ReadWindow(ctx, source));
  conv.image = source.input;
  ASSIGN_OR_RETURN(conv.output, CountBlocks(ctx, conv.window, conv.image));
  conv.n = x[0];
  conv.c = x[1];
  conv.filters = w[0];
  conv.cells = Product(w, 2, w.rank());
  for (int64_t size : conv.output) conv.blocks *= size;
  ASSIGN_OR_RETURN(conv.groups, ReadDivisor(ctx, "group", conv.c));
  ASSIGN_OR_RETURN(conv.offset_groups,
                   ReadDivisor(ctx, "offset_group", conv.c));
  if (conv.filters % conv.groups != 0 || w[1] != conv.c / conv.groups) {
    return ctx.Refuse("weights ", w.ToString(), " do not fit ", conv.c,
                      " channels in ", conv.groups, " groups");
  }
  return conv;
}

// Returns input i, [N, offset groups * per_group, output], as [images,
// per_group, blocks].
absl::StatusOr<ValueId> PerBlock(NodeContext& ctx, const Deformed& conv, int i,
                                 int64_t per_group) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(i));
  std::vector<int64_t> dims{conv.n, conv.offset_groups * per_group};
  dims.insert(dims.end(), conv.output.begin(), conv.output.end());
  if (Dims(ctx.shape(x)) != dims) {
    ASSIGN_OR_RETURN(const Shape wanted, MakeShape(ctx, dims));
    return ctx.Refuse("input ", i, " is ", ctx.shape(x).ToString(),
                      " and must be ", wanted.ToString());
  }
  return ctx.Reshape(x, {conv.images(), per_group, conv.blocks});
}

// Adds one number for each index of `sizes`: step times the index along an
// axis, plus `start`.
struct Along {
  const Sizes& sizes;
  size_t axis;
  int64_t start, step;
};
absl::StatusOr<ValueId> Steps(NodeContext& ctx, DType dtype,
                              const Along& along) {
  ASSIGN_OR_RETURN(const Shape all, MakeShape(ctx, along.sizes));
  RETURN_IF_ERROR(ReserveNumbers(ctx, all.elements()));
  ASSIGN_OR_RETURN(const Shape shape, MakeShape(ctx, {all.elements()}));
  HostTensor steps{dtype, shape, {}};
  Sizes index(along.sizes.size(), 0);
  do {
    steps.numbers.push_back(
        static_cast<double>(along.start + along.step * index[along.axis]));
  } while (Next(index, along.sizes));
  return ctx.Constant(std::move(steps));
}

// Returns the taps of all cells along one axis, [images, cells, blocks].
// Coordinates have at least 32 bits, since 16 could not number many cells.
absl::StatusOr<Taps> CellTaps(NodeContext& ctx, const Deformed& conv,
                              ValueId offsets, size_t axis) {
  const DType dtype =
      ctx.dtype(conv.x) == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const SpatialWindow& window = conv.window;
  ASSIGN_OR_RETURN(
      const ValueId in_kernel,
      Steps(ctx, dtype, {window.kernel, axis, 0, window.dilations[axis]}));
  ASSIGN_OR_RETURN(
      const ValueId in_image,
      Steps(ctx, dtype,
            {conv.output, axis, -window.begin[axis], window.strides[axis]}));
  ASSIGN_OR_RETURN(const ValueId column,
                   ctx.Reshape(in_kernel, {conv.cells, 1}));
  ASSIGN_OR_RETURN(const ValueId regular,
                   ctx.Binary(Binary::kAdd, column, in_image));
  const auto axes = static_cast<int64_t>(conv.image.size());
  ASSIGN_OR_RETURN(
      const ValueId apart,
      ctx.Reshape(offsets, {conv.images(), conv.cells, axes, conv.blocks}));
  ASSIGN_OR_RETURN(const ValueId offset,
                   TakeRow(ctx, apart, 2, static_cast<int64_t>(axis)));
  ASSIGN_OR_RETURN(const ValueId typed, ctx.Cast(offset, dtype));
  ASSIGN_OR_RETURN(const ValueId at, ctx.Binary(Binary::kAdd, typed, regular));
  ASSIGN_OR_RETURN(Taps taps, LinearTaps(ctx, at, {.size = conv.image[axis]}));
  for (Tap& tap : taps) {
    ASSIGN_OR_RETURN(tap.weight, ctx.Cast(tap.weight, ctx.dtype(conv.x)));
  }
  return taps;
}

// Gathers the cells of all blocks, [images, cells, blocks, channels of an
// offset group].
absl::StatusOr<ValueId> GatherCells(NodeContext& ctx, const Deformed& conv) {
  const auto axes = static_cast<int64_t>(conv.image.size());
  ASSIGN_OR_RETURN(const ValueId offsets,
                   PerBlock(ctx, conv, 2, conv.cells * axes));
  std::vector<Taps> taps(conv.image.size());
  for (size_t axis = 0; axis < taps.size(); ++axis) {
    ASSIGN_OR_RETURN(taps[axis], CellTaps(ctx, conv, offsets, axis));
  }
  std::vector<int64_t> dims{conv.images(), conv.c / conv.offset_groups};
  dims.insert(dims.end(), conv.image.begin(), conv.image.end());
  ASSIGN_OR_RETURN(const ValueId x, ctx.Reshape(conv.x, dims));
  ASSIGN_OR_RETURN(SampledImage image, ReadImage(ctx, x));
  ASSIGN_OR_RETURN(const ValueId numbers, Positions(ctx, conv.images()));
  ASSIGN_OR_RETURN(image.number, ctx.Reshape(numbers, {conv.images(), 1, 1}));
  ASSIGN_OR_RETURN(const ValueId cells, GatherTaps(ctx, image, taps));
  if (!ctx.has_input(4)) return cells;
  ASSIGN_OR_RETURN(const ValueId mask, PerBlock(ctx, conv, 4, conv.cells));
  ASSIGN_OR_RETURN(
      const ValueId factors,
      ctx.Reshape(mask, {conv.images(), conv.cells, conv.blocks, 1}));
  return ctx.Binary(Binary::kMultiply, cells, factors);
}

absl::Status LowerDeformConv(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const Deformed conv, ReadDeformed(ctx));
  ASSIGN_OR_RETURN(const ValueId cells, GatherCells(ctx, conv));
  ASSIGN_OR_RETURN(
      const ValueId apart,
      ctx.Reshape(cells, {conv.n, conv.offset_groups, conv.cells, conv.blocks,
                          conv.c / conv.offset_groups}));
  ASSIGN_OR_RETURN(const ValueId ordered,
                   ctx.Transpose(apart, {0, 1, 4, 2, 3}));
  const int64_t inner = conv.c / conv.groups * conv.cells;
  ASSIGN_OR_RETURN(
      const ValueId columns,
      ctx.Reshape(ordered, {conv.n, conv.groups, inner, conv.blocks}));
  ASSIGN_OR_RETURN(
      const ValueId weights,
      ctx.Reshape(conv.w, {1, conv.groups, conv.filters / conv.groups, inner}));
  ASSIGN_OR_RETURN(
      const ValueId product,
      ctx.Emit(Op::kBatchMatMul, {weights, columns}, BatchMatMulAttributes{}));
  std::vector<int64_t> dims{conv.n, conv.filters};
  dims.insert(dims.end(), conv.output.begin(), conv.output.end());
  ASSIGN_OR_RETURN(const ValueId y, ctx.Reshape(product, dims));
  if (!ctx.has_input(3)) return Finish(ctx, y);
  ASSIGN_OR_RETURN(const ValueId bias, ctx.Input(3));
  ASSIGN_OR_RETURN(const ValueId per_channel,
                   PerChannel(ctx, bias, ctx.rank(y)));
  return Finish(ctx, Plus(ctx, y, per_channel));
}

}  // namespace

absl::Span<const OperatorEntry> ColumnOperators() {
  static const OperatorEntry rows[] = {
      {"", "Col2Im", "image", kNumbers, LowerCol2Im},
      {"", "DeformConv", "convolution", kShapes, LowerDeformConv},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
