// Lowers the operators that view, repeat or describe shapes.
#include <algorithm>
#include <limits>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"

namespace gpupool::engine::onnx_import {
namespace {

// Resolves the target dimensions 0 (as in the input) and -1 (the remaining
// elements).
absl::Status ResolveTarget(const NodeContext& ctx, const Shape& from,
                           bool allow_zero, std::vector<int64_t>& dims) {
  if (dims.size() > kMaxRank) {
    return ctx.Refuse("target shape has ", dims.size(),
                      " dimensions; the limit is ", kMaxRank);
  }
  int unknown = -1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 && !allow_zero) {
      if (static_cast<int>(i) >= from.rank()) {
        return ctx.Refuse("target dimension ", i, " is 0 but the input ",
                          from.ToString(), " has no such dimension");
      }
      dims[i] = from[static_cast<int>(i)];
    } else if (dims[i] == -1) {
      if (unknown >= 0) return ctx.Refuse("two target dimensions are -1");
      unknown = static_cast<int>(i);
    }
  }
  if (unknown < 0) return absl::OkStatus();
  // With a 1 here, the shape has the product of the other dimensions.
  dims[static_cast<size_t>(unknown)] = 1;
  ASSIGN_OR_RETURN(const Shape others, MakeShape(ctx, dims));
  const int64_t known = others.elements();
  if (known == 0 || from.elements() % known != 0) {
    return ctx.Refuse(
        "the dimension of -1 cannot be worked out: ", from.elements(),
        " elements, ", known, " in the other dimensions");
  }
  dims[static_cast<size_t>(unknown)] = from.elements() / known;
  return absl::OkStatus();
}

absl::Status LowerReshape(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  std::vector<int64_t> dims;
  if (ctx.opset() < 5) {
    ASSIGN_OR_RETURN(dims, ctx.Ints("shape", {}));
  } else {
    ASSIGN_OR_RETURN(dims, KnownInts(ctx, 1, "the target shape"));
  }
  ASSIGN_OR_RETURN(const int64_t allow_zero, ctx.Int("allowzero", 0));
  RETURN_IF_ERROR(ResolveTarget(ctx, ctx.shape(x), allow_zero != 0, dims));
  return Finish(ctx, ReshapeMaybeEmpty(ctx, x, dims));
}

absl::Status LowerFlatten(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const int64_t at, ctx.Int("axis", 1));
  const int rank = ctx.rank(x);
  // The axis may equal the rank, which Axis() refuses.
  int axis = rank;
  if (at != rank) {
    ASSIGN_OR_RETURN(axis, ctx.Axis(at, rank));
  }
  const Shape shape = ctx.shape(x);
  const int64_t dims[] = {Product(shape, 0, axis), Product(shape, axis, rank)};
  return Finish(ctx, ReshapeMaybeEmpty(ctx, x, dims));
}

absl::Status LowerSqueeze(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  const Shape shape = ctx.shape(x);
  ASSIGN_OR_RETURN(const std::vector<int64_t> named,
                   AttributeOrInput(ctx, {1, "axes", 13}));
  ASSIGN_OR_RETURN(const std::vector<int> axes,
                   NormalAxes(ctx, named, shape.rank()));
  std::vector<int64_t> dims;
  for (int i = 0; i < shape.rank(); ++i) {
    const bool named_here = std::binary_search(axes.begin(), axes.end(), i);
    if (named_here && shape[i] != 1) {
      return ctx.Refuse("axis ", i, " of ", shape.ToString(), " is not 1");
    }
    // If no axes are named, all dimensions of 1 go.
    if (named_here || (named.empty() && shape[i] == 1)) continue;
    dims.push_back(shape[i]);
  }
  return Finish(ctx, ReshapeMaybeEmpty(ctx, x, dims));
}

absl::Status LowerUnsqueeze(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const std::vector<int64_t> named,
                   AttributeOrInput(ctx, {1, "axes", 13}));
  const Shape shape = ctx.shape(x);
  if (named.size() > kMaxRank) {
    return ctx.Refuse("names ", named.size(), " axes; the limit is ", kMaxRank);
  }
  const int rank = shape.rank() + static_cast<int>(named.size());
  ASSIGN_OR_RETURN(const std::vector<int> axes, NormalAxes(ctx, named, rank));
  std::vector<int64_t> dims = Dims(shape);
  // Axes rise, so no insertion moves an earlier one.
  for (int axis : axes) dims.insert(dims.begin() + axis, 1);
  return Finish(ctx, ReshapeMaybeEmpty(ctx, x, dims));
}

absl::Status LowerTranspose(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  const int rank = ctx.rank(x);
  std::vector<int> permutation = AllAxes(rank);
  std::reverse(permutation.begin(), permutation.end());
  if (ctx.has_attribute("perm")) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> named, ctx.Ints("perm", {}));
    ASSIGN_OR_RETURN(const std::vector<int> axes, NormalAxes(ctx, named, rank));
    if (axes.size() != static_cast<size_t>(rank)) {
      return ctx.Refuse("perm names ", axes.size(), " of ", rank, " axes");
    }
    // NormalAxes() sorts the axes, so it serves only as a check.
    for (size_t i = 0; i < named.size(); ++i) {
      ASSIGN_OR_RETURN(permutation[i], ctx.Axis(named[i], rank));
    }
  }
  return Finish(ctx, ctx.Transpose(x, permutation));
}

absl::Status LowerExpand(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const std::vector<int64_t> dims,
                   KnownInts(ctx, 1, "the target shape"));
  ASSIGN_OR_RETURN(const Shape wanted, MakeShape(ctx, dims));
  ASSIGN_OR_RETURN(const Shape shape,
                   BroadcastShape(ctx, ctx.shape(x), wanted));
  if (shape.elements() == 0) {
    return Finish(ctx, Filled(ctx, ctx.dtype(x), shape, 0));
  }
  return Finish(ctx, ctx.BroadcastTo(x, shape));
}

// Adds `times` copies of x, one after the other along an axis.
absl::StatusOr<ValueId> Repeat(NodeContext& ctx, ValueId x, int axis,
                               int64_t times) {
  if (times == 1) return x;
  const Shape shape = ctx.shape(x);
  std::vector<int64_t> dims = Dims(shape);
  const int64_t outer = Product(shape, 0, axis);
  const int64_t inner = Product(shape, axis, shape.rank());
  const int64_t one[] = {outer, 1, inner};
  const int64_t many[] = {outer, times, inner};
  ASSIGN_OR_RETURN(const Shape repeated, MakeShape(ctx, many));
  ASSIGN_OR_RETURN(const ValueId flat, ctx.Reshape(x, one));
  ASSIGN_OR_RETURN(const ValueId copies, ctx.BroadcastTo(flat, repeated));
  dims[static_cast<size_t>(axis)] *= times;
  return ctx.Reshape(copies, dims);
}

// Reads the repeats. Opset 1 has inputs for a count and an axis instead.
absl::StatusOr<std::vector<int64_t>> Repeats(NodeContext& ctx, int rank) {
  if (ctx.opset() >= 6) return KnownInts(ctx, 1, "the repeats");
  ASSIGN_OR_RETURN(const int64_t tiles, KnownInt(ctx, 1, "the tiles"));
  ASSIGN_OR_RETURN(const int64_t at, KnownInt(ctx, 2, "the axis"));
  ASSIGN_OR_RETURN(const int axis, ctx.Axis(at, rank));
  std::vector<int64_t> repeats(static_cast<size_t>(rank), 1);
  repeats[static_cast<size_t>(axis)] = tiles;
  return repeats;
}

absl::Status LowerTile(NodeContext& ctx) {
  ASSIGN_OR_RETURN(ValueId x, ctx.Input(0));
  const Shape shape = ctx.shape(x);
  ASSIGN_OR_RETURN(const std::vector<int64_t> repeats,
                   Repeats(ctx, shape.rank()));
  if (repeats.size() != static_cast<size_t>(shape.rank())) {
    return ctx.Refuse(repeats.size(), " repeats for ", shape.rank(),
                      " dimensions");
  }
  std::vector<int64_t> dims = Dims(shape);
  for (size_t i = 0; i < dims.size(); ++i) {
    if (repeats[i] < 0 || repeats[i] > kMaxElements) {
      return ctx.Refuse("repeat ", repeats[i], " of axis ", i,
                        " must be from 0 to ", kMaxElements);
    }
    // The division avoids an overflow.
    if (dims[i] > 0 && repeats[i] > kMaxElements / dims[i]) {
      return ctx.Refuse("axis ", i, " of ", shape.ToString(), " times ",
                        repeats[i], " is over the limit of ", kMaxElements);
    }
    dims[i] *= repeats[i];
  }
  ASSIGN_OR_RETURN(const Shape result, MakeShape(ctx, dims));
  if (result.elements() == 0) {
    return Finish(ctx, Filled(ctx, ctx.dtype(x), result, 0));
  }
  for (int i = 0; i < shape.rank(); ++i) {
    ASSIGN_OR_RETURN(x, Repeat(ctx, x, i, repeats[static_cast<size_t>(i)]));
  }
  return Finish(ctx, x);
}

ValueId Integers(NodeContext& ctx, absl::Span<const int64_t> numbers) {
  HostTensor tensor{DType::kInt64, {}, {numbers.begin(), numbers.end()}};
  const int64_t dims[] = {static_cast<int64_t>(numbers.size())};
  tensor.shape = *Shape::CreateMaybeEmpty(dims);
  return ctx.Constant(std::move(tensor));
}

absl::Status LowerShape(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  const int64_t rank = ctx.rank(x);
  ASSIGN_OR_RETURN(int64_t start, ctx.Int("start", 0));
  ASSIGN_OR_RETURN(int64_t end, ctx.Int("end", rank));
  // The specification clamps bounds beyond the rank.
  start = std::clamp(start < 0 ? start + rank : start, int64_t{0}, rank);
  end = std::clamp(end < 0 ? end + rank : end, start, rank);
  ctx.Set(0, Integers(ctx, ctx.shape(x).dims().subspan(
                               static_cast<size_t>(start),
                               static_cast<size_t>(end - start))));
  return absl::OkStatus();
}

absl::Status LowerSize(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ctx.Set(0, ctx.Constant({DType::kInt64,
                           {},
                           {static_cast<double>(ctx.shape(x).elements())}}));
  return absl::OkStatus();
}

// Images [N, C, H, W], and the size of the blocks that H and W are cut into.
// The permutations below are those of the operators' specification.
struct DepthBlocks {
  int64_t n, c, h, w, block;
};

absl::StatusOr<DepthBlocks> ReadDepthBlocks(NodeContext& ctx, ValueId x) {
  RETURN_IF_ERROR(RequireRank(ctx, x, 4, 4));
  ASSIGN_OR_RETURN(const int64_t block, ctx.Int("blocksize", 0));
  if (block < 1 || block > (1 << 16)) {
    return ctx.Refuse("blocksize ", block, " must be from 1 to 65536");
  }
  const Shape& shape = ctx.shape(x);
  return DepthBlocks{shape[0], shape[1], shape[2], shape[3], block};
}

absl::Status LowerDepthToSpace(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const DepthBlocks b, ReadDepthBlocks(ctx, x));
  ASSIGN_OR_RETURN(const int mode, Choice(ctx, "mode", {"DCR", "CRD"}));
  const int64_t cells = b.block * b.block;
  if (b.c % cells != 0) {
    return ctx.Refuse(b.c, " channels are no multiple of ", cells);
  }
  const bool depth_first = mode == 0;
  const int64_t c = b.c / cells;
  const int64_t split_dcr[] = {b.n, b.block, b.block, c, b.h, b.w};
  const int64_t split_crd[] = {b.n, c, b.block, b.block, b.h, b.w};
  ASSIGN_OR_RETURN(const ValueId split,
                   ctx.Reshape(x, depth_first ? split_dcr : split_crd));
  const int order_dcr[] = {0, 3, 4, 1, 5, 2};
  const int order_crd[] = {0, 1, 4, 2, 5, 3};
  ASSIGN_OR_RETURN(const ValueId moved,
                   ctx.Transpose(split, depth_first ? order_dcr : order_crd));
  const int64_t dims[] = {b.n, c, b.h * b.block, b.w * b.block};
  return Finish(ctx, ctx.Reshape(moved, dims));
}

absl::Status LowerSpaceToDepth(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const DepthBlocks b, ReadDepthBlocks(ctx, x));
  if (b.h % b.block != 0 || b.w % b.block != 0) {
    return ctx.Refuse("height ", b.h, " and width ", b.w,
                      " must be multiples of ", b.block);
  }
  const int64_t h = b.h / b.block;
  const int64_t w = b.w / b.block;
  const int64_t split[] = {b.n, b.c, h, b.block, w, b.block};
  const int order[] = {0, 3, 5, 1, 2, 4};
  ASSIGN_OR_RETURN(const ValueId cut, ctx.Reshape(x, split));
  ASSIGN_OR_RETURN(const ValueId moved, ctx.Transpose(cut, order));
  const int64_t dims[] = {b.n, b.c * b.block * b.block, h, w};
  return Finish(ctx, ctx.Reshape(moved, dims));
}

}  // namespace

absl::Span<const OperatorEntry> ShapeOperators() {
  static constexpr absl::string_view kFamily = "shape";
  static const OperatorEntry rows[] = {
      {"", "DepthToSpace", kFamily, kShapes, LowerDepthToSpace},
      {"", "Expand", kFamily, kNumbers, LowerExpand},
      {"", "Flatten", kFamily, kShapes, LowerFlatten},
      {"", "Reshape", kFamily, kNumbers, LowerReshape},
      {"", "Shape", kFamily, kShapes, LowerShape},
      {"", "Size", kFamily, kShapes, LowerSize},
      {"", "SpaceToDepth", kFamily, kShapes, LowerSpaceToDepth},
      {"", "Squeeze", kFamily, kNumbers, LowerSqueeze},
      {"", "Tile", kFamily, kNumbers, LowerTile},
      {"", "Transpose", kFamily, kShapes, LowerTranspose},
      {"", "Unsqueeze", kFamily, kNumbers, LowerUnsqueeze},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
