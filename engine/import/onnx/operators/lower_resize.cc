// Lowers Upsample and all versions of Resize.
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/graph_importer.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"
#include "engine/model/resize_table.h"

namespace gpupool::engine::onnx_import {
namespace {

// Charges the import's budget for the table: a position and a weight per tap.
absl::Status HoldTable(NodeContext& ctx, const ResizeAttributes& resize) {
  size_t taps = 0;
  for (const ResizeAxis& axis : resize.axes) taps += axis.indices.size();
  const absl::Status held = ctx.importer().values().budget().Hold(
      taps * (sizeof(int64_t) + sizeof(double)));
  return held.ok() ? held : ctx.Refuse(held.message());
}

// Adds the resize, and a mask for output cells outside of the region.
absl::StatusOr<ValueId> Resized(NodeContext& ctx, ValueId x,
                                const std::vector<ResizeTarget>& targets,
                                const ResizeOptions& options) {
  absl::StatusOr<ResizeTable> table =
      MakeResizeTable(ctx.shape(x), targets, options);
  if (!table.ok()) return ctx.Refuse(table.status().message());
  if (table->shape.elements() == 0) {
    return ctx.Refuse("the output ", table->shape.ToString(),
                      " would have no elements");
  }
  RETURN_IF_ERROR(HoldTable(ctx, table->attributes));
  const DType dtype = ctx.dtype(x);
  ValueId y = x;
  if (!table->attributes.axes.empty()) {
    // The op takes floating numbers only.
    ASSIGN_OR_RETURN(const ValueId floating,
                     ctx.Cast(x, IsFloating(dtype) ? dtype : DType::kFloat32));
    ASSIGN_OR_RETURN(const ValueId resized,
                     ctx.Emit(Op::kResize, {floating}, table->attributes));
    ASSIGN_OR_RETURN(y, ctx.Cast(resized, dtype));
  }
  if (!table->mask.has_value()) return y;
  ASSIGN_OR_RETURN(const double outside, ctx.Float("extrapolation_value", 0));
  const ValueId mask = ctx.Constant(
      {DType::kBool, table->mask->shape, std::move(table->mask->numbers)});
  return ctx.Emit(Op::kWhere, {mask, ctx.Scalar(dtype, outside), y});
}

absl::StatusOr<std::vector<ResizeTarget>> FromScales(
    const NodeContext& ctx, const std::vector<double>& scales,
    const std::vector<int64_t>& axes) {
  if (scales.size() != axes.size()) {
    return ctx.Refuse(scales.size(), " scales for ", axes.size(), " axes");
  }
  std::vector<ResizeTarget> targets;
  for (size_t i = 0; i < axes.size(); ++i) {
    ResizeTarget target;
    target.axis = static_cast<int>(axes[i]);
    target.scale = scales[i];
    targets.push_back(target);
  }
  return targets;
}

// Returns 0, 1, ... rank - 1.
std::vector<int64_t> Count(int rank) {
  std::vector<int64_t> axes;
  for (int i = 0; i < rank; ++i) axes.push_back(i);
  return axes;
}

// Reads a word attribute and parses it.
template <typename T>
absl::StatusOr<T> Parsed(const NodeContext& ctx, absl::string_view name,
                         absl::string_view otherwise,
                         absl::StatusOr<T> (*parse)(absl::string_view)) {
  const absl::StatusOr<std::string> word = ctx.String(name, otherwise);
  if (!word.ok()) return word.status();
  absl::StatusOr<T> value = parse(*word);
  if (!value.ok()) return ctx.Refuse(value.status().message());
  return value;
}

// Lowers Upsample and Resize of opset 10. The position of an output cell is its
// number divided by the scale.
absl::Status LowerOldResize(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ResizeOptions options;
  options.coordinates = ResizeCoordinates::kAsymmetric;
  options.rounding = ResizeRounding::kFloor;
  // Opset 1 calls the mode "bilinear".
  ASSIGN_OR_RETURN(
      options.mode,
      Parsed(
          ctx, "mode", "nearest", +[](absl::string_view word) {
            return ParseResizeMode(word == "bilinear" ? "linear" : word);
          }));
  std::vector<double> scales;
  // The scales are two attributes in opset 1, one from opset 7, and an input
  // from opset 9.
  if (ctx.opset() >= 9) {
    ASSIGN_OR_RETURN(const HostTensor known, ctx.Known(1, "the scales"));
    scales = known.numbers;
  } else if (ctx.has_attribute("scales")) {
    ASSIGN_OR_RETURN(scales, ctx.Floats("scales", {}));
  } else {
    ASSIGN_OR_RETURN(const double height, ctx.Float("height_scale", 1));
    ASSIGN_OR_RETURN(const double width, ctx.Float("width_scale", 1));
    scales = {1, 1, height, width};
  }
  ASSIGN_OR_RETURN(const std::vector<ResizeTarget> targets,
                   FromScales(ctx, scales, Count(ctx.rank(x))));
  return Finish(ctx, Resized(ctx, x, targets, options));
}

absl::StatusOr<ResizeOptions> ReadOptions(const NodeContext& ctx) {
  ResizeOptions options;
  ASSIGN_OR_RETURN(options.mode,
                   Parsed(ctx, "mode", "nearest", ParseResizeMode));
  ASSIGN_OR_RETURN(options.coordinates,
                   Parsed(ctx, "coordinate_transformation_mode", "half_pixel",
                          ParseResizeCoordinates));
  ASSIGN_OR_RETURN(
      options.rounding,
      Parsed(ctx, "nearest_mode", "round_prefer_floor", ParseResizeRounding));
  ASSIGN_OR_RETURN(options.aspect, Parsed(ctx, "keep_aspect_ratio_policy",
                                          "stretch", ParseResizeAspect));
  ASSIGN_OR_RETURN(options.cubic_coefficient,
                   ctx.Float("cubic_coeff_a", -0.75));
  ASSIGN_OR_RETURN(const int64_t exclude, ctx.Int("exclude_outside", 0));
  ASSIGN_OR_RETURN(const int64_t antialias, ctx.Int("antialias", 0));
  options.exclude_outside = exclude != 0;
  options.antialias = antialias != 0;
  return options;
}

// Returns the known numbers of an input, or none if it is absent.
absl::StatusOr<std::vector<double>> Numbers(NodeContext& ctx, int input,
                                            absl::string_view what) {
  if (!ctx.has_input(input)) return std::vector<double>{};
  ASSIGN_OR_RETURN(const HostTensor known, ctx.Known(input, what));
  return known.numbers;
}

absl::StatusOr<std::vector<ResizeTarget>> ReadTargets(
    NodeContext& ctx, const std::vector<int64_t>& axes) {
  ASSIGN_OR_RETURN(const std::vector<double> scales,
                   Numbers(ctx, 2, "the scales"));
  if (!scales.empty()) return FromScales(ctx, scales, axes);
  if (!ctx.has_input(3)) return ctx.Refuse("needs scales or sizes");
  ASSIGN_OR_RETURN(const std::vector<int64_t> sizes,
                   KnownInts(ctx, 3, "the sizes"));
  if (sizes.size() != axes.size()) {
    return ctx.Refuse(sizes.size(), " sizes for ", axes.size(), " axes");
  }
  std::vector<ResizeTarget> targets;
  for (size_t i = 0; i < axes.size(); ++i) {
    ResizeTarget target;
    target.axis = static_cast<int>(axes[i]);
    target.size = sizes[i];
    targets.push_back(target);
  }
  return targets;
}

absl::Status LowerResize(NodeContext& ctx) {
  if (ctx.opset() < 11) return LowerOldResize(ctx);
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const ResizeOptions options, ReadOptions(ctx));
  std::vector<int64_t> axes = Count(ctx.rank(x));
  if (ctx.has_attribute("axes")) {
    ASSIGN_OR_RETURN(axes, ctx.Ints("axes", {}));
    for (int64_t& axis : axes) {
      ASSIGN_OR_RETURN(axis, ctx.Axis(axis, ctx.rank(x)));
    }
  }
  ASSIGN_OR_RETURN(std::vector<ResizeTarget> targets, ReadTargets(ctx, axes));
  if (options.coordinates == ResizeCoordinates::kTfCropAndResize) {
    ASSIGN_OR_RETURN(const std::vector<double> roi,
                     Numbers(ctx, 1, "the region"));
    if (roi.size() != 2 * targets.size()) {
      return ctx.Refuse("roi has ", roi.size(), " numbers instead of ",
                        2 * targets.size());
    }
    // The region lists all begins, then all ends.
    for (size_t i = 0; i < targets.size(); ++i) {
      targets[i].roi_begin = roi[i];
      targets[i].roi_end = roi[i + targets.size()];
    }
  }
  return Finish(ctx, Resized(ctx, x, targets, options));
}

}  // namespace

absl::Span<const OperatorEntry> ResizeOperators() {
  static constexpr absl::string_view kFamily = "image";
  static const OperatorEntry rows[] = {
      {"", "Resize", kFamily, OperatorNeeds::kNumbers, LowerResize},
      {"", "Upsample", kFamily, OperatorNeeds::kNumbers, LowerOldResize},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
