#include "engine/import/onnx/operators/window_attributes.h"

#include <algorithm>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/lowering_parts.h"

namespace gpupool::engine::onnx_import {
namespace {

// Reads a list attribute with one entry per axis. `otherwise` is the default of
// each entry, and its minimum.
absl::StatusOr<std::vector<int64_t>> PerAxis(const NodeContext& ctx,
                                             absl::string_view name,
                                             size_t count, int64_t otherwise) {
  ASSIGN_OR_RETURN(std::vector<int64_t> numbers, ctx.Ints(name, {}));
  if (numbers.empty()) numbers.assign(count, otherwise);
  if (numbers.size() != count) {
    return ctx.Refuse(name, " has ", numbers.size(), " numbers instead of ",
                      count);
  }
  for (int64_t number : numbers) {
    if (number < otherwise || number > kMaxWindowCells) {
      return ctx.Refuse(name, " ", number, " must be from ", otherwise, " to ",
                        kMaxWindowCells);
    }
  }
  return numbers;
}

// Pads so that the output has ceil(input / stride) cells. An odd cell goes to
// the end (SAME_UPPER) or to the beginning (SAME_LOWER).
void PadToSame(const std::vector<int64_t>& input, bool upper,
               SpatialWindow& window) {
  for (size_t i = 0; i < window.axes(); ++i) {
    const int64_t stride = window.strides[i];
    const int64_t cells = (input[i] + stride - 1) / stride;
    const int64_t total =
        std::max<int64_t>(0, (cells - 1) * stride + window.reach(i) - input[i]);
    const int64_t small = total / 2;
    window.begin[i] = upper ? small : total - small;
    window.end[i] = upper ? total - small : small;
  }
}

absl::Status ReadPads(const NodeContext& ctx, const WindowSource& source,
                      SpatialWindow& window) {
  const size_t count = window.axes();
  ASSIGN_OR_RETURN(const AutoPad automatic, ReadAutoPad(ctx));
  window.begin.assign(count, 0);
  window.end.assign(count, 0);
  if (automatic == AutoPad::kValid) return absl::OkStatus();
  if (automatic != AutoPad::kNone) {
    // A transposed convolution derives its pads from the output's shape later.
    if (!source.transposed) {
      PadToSame(source.input, automatic == AutoPad::kSameUpper, window);
    }
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> pads,
                   PerAxis(ctx, "pads", 2 * count, 0));
  // The list has all begins, then all ends.
  for (size_t i = 0; i < count; ++i) {
    window.begin[i] = pads[i];
    window.end[i] = pads[count + i];
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<AutoPad> ReadAutoPad(const NodeContext& ctx) {
  ASSIGN_OR_RETURN(
      const int word,
      Choice(ctx, "auto_pad", {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"}));
  return static_cast<AutoPad>(word);
}

absl::StatusOr<SpatialWindow> ReadWindow(const NodeContext& ctx,
                                         const WindowSource& source) {
  const size_t count = source.input.size();
  SpatialWindow window;
  if (!ctx.has_attribute("kernel_shape") && source.kernel.empty()) {
    return ctx.Refuse("needs the attribute kernel_shape");
  }
  ASSIGN_OR_RETURN(window.kernel, PerAxis(ctx, "kernel_shape", count, 1));
  if (!ctx.has_attribute("kernel_shape")) window.kernel = source.kernel;
  if (!source.kernel.empty() && window.kernel != source.kernel) {
    return ctx.Refuse("kernel_shape is not that of the weights");
  }
  for (int64_t cells : window.kernel) {
    if (cells > kMaxWindowCells) {
      return ctx.Refuse("a kernel of ", cells, " is over the limit of ",
                        kMaxWindowCells);
    }
  }
  ASSIGN_OR_RETURN(window.strides, PerAxis(ctx, "strides", count, 1));
  ASSIGN_OR_RETURN(window.dilations, PerAxis(ctx, "dilations", count, 1));
  ASSIGN_OR_RETURN(const int64_t ceil_mode, ctx.Int("ceil_mode", 0));
  window.ceil_mode = ceil_mode != 0;
  RETURN_IF_ERROR(ReadPads(ctx, source, window));
  return window;
}

absl::StatusOr<std::vector<int64_t>> SpatialSizes(const NodeContext& ctx,
                                                  ValueId x) {
  RETURN_IF_ERROR(RequireRank(ctx, x, 3, 5));
  const std::vector<int64_t> dims = Dims(ctx.shape(x));
  return std::vector<int64_t>(dims.begin() + 2, dims.end());
}

absl::StatusOr<ValueId> AtLeastImage(NodeContext& ctx, ValueId x) {
  if (ctx.rank(x) != 3) return x;
  std::vector<int64_t> dims = Dims(ctx.shape(x));
  dims.insert(dims.begin() + 2, 1);
  return ctx.Reshape(x, dims);
}

SpatialWindow AtLeastImage(SpatialWindow window) {
  if (window.axes() != 1) return window;
  for (std::vector<int64_t>* ones :
       {&window.kernel, &window.strides, &window.dilations}) {
    ones->insert(ones->begin(), 1);
  }
  window.begin.insert(window.begin.begin(), 0);
  window.end.insert(window.end.begin(), 0);
  return window;
}

absl::StatusOr<ValueId> WithRank(NodeContext& ctx, ValueId y, int rank) {
  if (ctx.rank(y) == rank) return y;
  std::vector<int64_t> dims = Dims(ctx.shape(y));
  dims.erase(dims.begin() + 2);
  return ctx.Reshape(y, dims);
}

Extent ToExtent(absl::Span<const int64_t> numbers) {
  if (numbers.size() == 2) return {numbers[0], numbers[1]};
  return {numbers[1], numbers[2], numbers[0]};
}

}  // namespace gpupool::engine::onnx_import
