// The sliding window of convolutions and pools as ONNX files describe it:
// kernel, strides, dilations and explicit or automatic padding over one to
// three spatial axes. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/import/onnx/graph/node_context.h"

namespace gpupool::engine::onnx_import {

// One entry per spatial axis, all checked: kernel, strides and dilations from
// 1, pads from 0, everything at most kMaxWindowCells.
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

// `kernel`: sizes that the weights give; empty when the attribute must be
// there. `input`: spatial sizes, for automatic padding. With `transposed` the
// pads are left as the file has them: those of ConvTranspose follow from the
// output.
struct WindowSource {
  std::vector<int64_t> kernel;
  std::vector<int64_t> input;
  bool transposed = false;
};
absl::StatusOr<SpatialWindow> ReadWindow(const NodeContext& ctx,
                                         const WindowSource& source);

// Spatial sizes of x [N, C, ...]. InvalidArgument unless there are 1 to 3.
absl::StatusOr<std::vector<int64_t>> SpatialSizes(const NodeContext& ctx,
                                                  ValueId x);

// One spatial axis becomes two by a height of 1, which images need.
absl::StatusOr<ValueId> AtLeastImage(NodeContext& ctx, ValueId x);
SpatialWindow AtLeastImage(SpatialWindow window);
// Takes the height of 1 away again when x had one spatial axis.
absl::StatusOr<ValueId> WithRank(NodeContext& ctx, ValueId y, int rank);

// Two or three numbers as height, width and depth.
Extent ToExtent(absl::Span<const int64_t> numbers);

}  // namespace gpupool::engine::onnx_import
