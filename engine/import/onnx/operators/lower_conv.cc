// Convolutions and transposed convolutions over one to three spatial axes.
#include <algorithm>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"
#include "engine/import/onnx/operators/products.h"
#include "engine/import/onnx/operators/window_attributes.h"

namespace gpupool::engine::onnx_import {
namespace {

absl::StatusOr<int64_t> ReadGroups(const NodeContext& ctx) {
  ASSIGN_OR_RETURN(const int64_t groups, ctx.Int("group", 1));
  if (groups < 1) return ctx.Refuse("group ", groups, " must be at least 1");
  return groups;
}

Conv2dAttributes ToConv(const SpatialWindow& window, int64_t groups) {
  Conv2dAttributes conv;
  conv.stride = ToExtent(window.strides);
  conv.padding = Padding(ToExtent(window.begin), ToExtent(window.end));
  conv.dilation = ToExtent(window.dilations);
  conv.groups = groups;
  return conv;
}

absl::Status LowerConv(NodeContext& ctx) {
  ConvolutionInputs inputs;
  ASSIGN_OR_RETURN(inputs.x, ctx.Input(0));
  ASSIGN_OR_RETURN(inputs.w, ctx.Input(1));
  if (ctx.has_input(2)) {
    ASSIGN_OR_RETURN(inputs.bias, ctx.Input(2));
  }
  return Finish(ctx, Convolution(ctx, inputs));
}

// Sizes of a transposed convolution by spatial axis.
struct TransposedSizes {
  std::vector<int64_t> full;    // without any padding
  std::vector<int64_t> output;  // as requested
};

// Returns the sizes by the operator's specification: output = full +
// output_padding - pads. If the output is given, the pads follow from it and
// are set in `window`.
absl::StatusOr<TransposedSizes> OutputSizes(const NodeContext& ctx,
                                            const std::vector<int64_t>& input,
                                            SpatialWindow& window) {
  const size_t count = input.size();
  ASSIGN_OR_RETURN(std::vector<int64_t> extra, ctx.Ints("output_padding", {}));
  ASSIGN_OR_RETURN(std::vector<int64_t> wanted, ctx.Ints("output_shape", {}));
  ASSIGN_OR_RETURN(const AutoPad automatic, ReadAutoPad(ctx));
  if (extra.empty()) extra.assign(count, 0);
  // Some files name all axes of the output.
  if (wanted.size() == count + 2)
    wanted.erase(wanted.begin(), wanted.begin() + 2);
  const bool same =
      automatic == AutoPad::kSameUpper || automatic == AutoPad::kSameLower;
  if (extra.size() != count || (!wanted.empty() && wanted.size() != count)) {
    return ctx.Refuse("output_padding and output_shape need ", count,
                      " numbers");
  }
  TransposedSizes sizes;
  for (size_t i = 0; i < count; ++i) {
    if (extra[i] < 0 || extra[i] > kMaxWindowCells) {
      return ctx.Refuse("output_padding ", extra[i], " must be from 0 to ",
                        kMaxWindowCells);
    }
    // Bounds the products below, so that they do not overflow.
    if (input[i] > kMaxElements / kMaxWindowCells) {
      return ctx.Refuse("an axis of ", input[i], " is over the limit of ",
                        kMaxElements / kMaxWindowCells);
    }
    const int64_t full = window.strides[i] * (input[i] - 1) + window.reach(i);
    int64_t output = full + extra[i] - window.begin[i] - window.end[i];
    if (!wanted.empty() || same) {
      output = wanted.empty() ? input[i] * window.strides[i] : wanted[i];
      if (output > full + kMaxWindowCells) {
        return ctx.Refuse("output_shape ", output, " is far larger than the ",
                          full, " cells of the convolution");
      }
      const int64_t total = std::max<int64_t>(0, full + extra[i] - output);
      const int64_t small = total / 2;
      window.begin[i] =
          automatic == AutoPad::kSameUpper ? small : total - small;
    }
    if (output < 1) return ctx.Refuse("the output would have no cells");
    sizes.full.push_back(full);
    sizes.output.push_back(output);
  }
  return sizes;
}

// Sets the pads at the end so that a convolution of the output would give the
// input. Returns false when no pads do: then some cells of the output are not
// reached.
bool InvertPads(const std::vector<int64_t>& input, const TransposedSizes& sizes,
                SpatialWindow& window) {
  for (size_t i = 0; i < input.size(); ++i) {
    const int64_t end = sizes.full[i] - sizes.output[i] - window.begin[i];
    window.end[i] = std::max<int64_t>(0, end);
    const int64_t padded = sizes.output[i] + window.begin[i] + window.end[i];
    if (padded < window.reach(i) ||
        (padded - window.reach(i)) / window.strides[i] + 1 != input[i]) {
      return false;
    }
  }
  return true;
}

// Cuts `begin` cells off each spatial axis, then cuts or pads the end.
absl::StatusOr<ValueId> FitTo(NodeContext& ctx, ValueId y,
                              const std::vector<int64_t>& begin,
                              const std::vector<int64_t>& sizes) {
  std::vector<int64_t> after(sizes.size() + 2, 0);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int axis = static_cast<int>(i) + 2;
    const int64_t cells = ctx.shape(y)[axis];
    if (begin[i] >= cells) return ctx.Refuse("the pads leave nothing");
    const int64_t size = std::min(cells - begin[i], sizes[i]);
    ASSIGN_OR_RETURN(
        y, SliceAxis(ctx, y, {.axis = axis, .start = begin[i], .size = size}));
    after[i + 2] = sizes[i] - size;
  }
  return PadEnds(ctx, y, std::move(after));
}

absl::Status LowerConvTranspose(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const ValueId w, ctx.Input(1));
  if (ctx.rank(x) != ctx.rank(w)) {
    return ctx.Refuse("input ", ctx.shape(x).ToString(), " and weights ",
                      ctx.shape(w).ToString(), " differ in rank");
  }
  WindowSource source;
  source.transposed = true;
  ASSIGN_OR_RETURN(source.input, SpatialSizes(ctx, x));
  ASSIGN_OR_RETURN(source.kernel, SpatialSizes(ctx, w));
  ASSIGN_OR_RETURN(SpatialWindow window, ReadWindow(ctx, source));
  ASSIGN_OR_RETURN(const int64_t groups, ReadGroups(ctx));
  ASSIGN_OR_RETURN(const TransposedSizes sizes,
                   OutputSizes(ctx, source.input, window));
  const std::vector<int64_t> begin = window.begin;
  // If a gradient cannot give the output directly, all of it is computed and
  // then cut.
  const bool direct = InvertPads(source.input, sizes, window);
  if (!direct) {
    window.begin.assign(begin.size(), 0);
    window.end.assign(begin.size(), 0);
  }
  const int64_t channels = ctx.shape(w)[1];
  if (channels > kMaxElements / groups) {
    return ctx.Refuse("group ", groups, " is too large");
  }
  std::vector<int64_t> dims{ctx.shape(x)[0], channels * groups};
  const std::vector<int64_t>& spatial = direct ? sizes.output : sizes.full;
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  if (dims.size() == 3) dims.insert(dims.begin() + 2, 1);
  Conv2dGradAttributes grad;
  grad.conv = ToConv(AtLeastImage(window), groups);
  ASSIGN_OR_RETURN(grad.result, MakeShape(ctx, dims));
  ASSIGN_OR_RETURN(const ValueId image, AtLeastImage(ctx, x));
  ASSIGN_OR_RETURN(const ValueId weights, AtLeastImage(ctx, w));
  ASSIGN_OR_RETURN(ValueId y, ctx.Emit(Op::kConv2dInputGrad, {image, weights},
                                       std::move(grad)));
  ASSIGN_OR_RETURN(y, WithRank(ctx, y, ctx.rank(x)));
  if (!direct) {
    ASSIGN_OR_RETURN(y, FitTo(ctx, y, begin, sizes.output));
  }
  if (!ctx.has_input(2)) return Finish(ctx, y);
  ASSIGN_OR_RETURN(const ValueId bias, ctx.Input(2));
  ASSIGN_OR_RETURN(const ValueId per_channel,
                   PerChannel(ctx, bias, ctx.rank(y)));
  return Finish(ctx, Plus(ctx, y, per_channel));
}

}  // namespace

absl::StatusOr<ValueId> Convolution(NodeContext& ctx,
                                    const ConvolutionInputs& inputs) {
  const int rank = ctx.rank(inputs.x);
  if (rank != ctx.rank(inputs.w)) {
    return ctx.Refuse("input ", ctx.shape(inputs.x).ToString(), " and weights ",
                      ctx.shape(inputs.w).ToString(), " differ in rank");
  }
  WindowSource source;
  ASSIGN_OR_RETURN(source.input, SpatialSizes(ctx, inputs.x));
  ASSIGN_OR_RETURN(source.kernel, SpatialSizes(ctx, inputs.w));
  ASSIGN_OR_RETURN(const SpatialWindow window, ReadWindow(ctx, source));
  ASSIGN_OR_RETURN(const int64_t groups, ReadGroups(ctx));
  Conv2dAttributes conv = ToConv(AtLeastImage(window), groups);
  ASSIGN_OR_RETURN(const ValueId image, AtLeastImage(ctx, inputs.x));
  ASSIGN_OR_RETURN(const ValueId weights, AtLeastImage(ctx, inputs.w));
  ValueIds operands{image, weights};
  if (inputs.bias.valid()) {
    operands.push_back(inputs.bias);
    conv.epilogue.bias = true;
  }
  ASSIGN_OR_RETURN(const ValueId y, ctx.Emit(Op::kConv2d, operands, conv));
  return WithRank(ctx, y, rank);
}

absl::Span<const OperatorEntry> ConvOperators() {
  static constexpr absl::string_view kFamily = "convolution";
  static const OperatorEntry rows[] = {
      {"", "Conv", kFamily, kShapes, LowerConv},
      {"", "ConvTranspose", kFamily, kShapes, LowerConvTranspose},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
