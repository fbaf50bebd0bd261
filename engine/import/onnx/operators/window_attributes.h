// Reads the sliding window of convolutions and pools from ONNX files: kernel,
// strides, dilations and explicit or automatic padding over one to three
// spatial axes. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/import/onnx/graph/node_context.h"

namespace gpupool::engine::onnx_import {

// One entry per spatial axis, all checked: kernel, strides and dilations are at
// least 1, pads at least 0, and all at most kMaxWindowCells.
struct SpatialWindow {
  std::vector<int64_t> kernel, strides, dilations, begin, end;
  bool ceil_mode = false;

  size_t axes() const { return kernel.size(); }
  int64_t reach(size_t axis) const {
    return dilations[axis] * (kernel[axis] - 1) + 1;
  }
};
enum class AutoPad : uint8_t { kNone, kValid, kSameUpper, kSameLower };
absl::StatusOr<AutoPad> ReadAutoPad(const NodeContext& ctx);
inline constexpr int64_t kMaxWindowCells = int64_t{1} << 20;

// `kernel` has the sizes of the weights' kernel, or is empty when the node must
// have the attribute. `input` has the spatial sizes, for automatic padding.
// With `transposed` the pads stay as the file has them, since those of
// ConvTranspose follow from the output.
struct WindowSource {
  std::vector<int64_t> kernel;
  std::vector<int64_t> input;
  bool transposed = false;
};
absl::StatusOr<SpatialWindow> ReadWindow(const NodeContext& ctx,
                                         const WindowSource& source);

// Returns the spatial sizes of x [N, C, ...]. INVALID_ARGUMENT unless there are
// 1 to 3.
absl::StatusOr<std::vector<int64_t>> SpatialSizes(const NodeContext& ctx,
                                                  ValueId x);

// Turn one spatial axis into two with a height of 1, since images have two.
absl::StatusOr<ValueId> AtLeastImage(NodeContext& ctx, ValueId x);
SpatialWindow AtLeastImage(SpatialWindow window);
// Removes the height of 1 when x had one spatial axis.
absl::StatusOr<ValueId> WithRank(NodeContext& ctx, ValueId y, int rank);

// Returns two or three numbers as height, width and depth.
Extent ToExtent(absl::Span<const int64_t> numbers);

}  // namespace gpupool::engine::onnx_import
