// The tables of the resize op, worked out from what ONNX Resize (operator sets
// 10 to 19) and Upsample say: interpolation, coordinates, sizes or scales.
// Pure functions over plain values.
//
// Where scales are given, a cell's origin is computed with the scale, as in
// ONNX and PyTorch, not with the ratio of the sizes. Under align_corners and
// tf_crop_and_resize the length of the output is a whole number, as the
// specification says and PyTorch and ONNX Runtime do.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/graph/attributes_movement.h"
#include "engine/tensor/shape.h"

namespace gpupool::engine {

enum class ResizeMode : uint8_t { kNearest, kLinear, kCubic };

// Where a cell of the output lies in the input; the names are ONNX's.
enum class ResizeCoordinates : uint8_t {
  kHalfPixel,
  kHalfPixelSymmetric,
  kPytorchHalfPixel,
  kAlignCorners,
  kAsymmetric,
  kTfHalfPixelForNn,
  kTfCropAndResize,
};

// Which cell a position between two cells belongs to.
enum class ResizeRounding : uint8_t {
  kRoundPreferFloor,
  kRoundPreferCeil,
  kFloor,
  kCeil,
};

// What sizes mean: themselves, or the box that the output, of the input's
// proportions, fits into or covers.
enum class ResizeAspect : uint8_t { kStretch, kNotLarger, kNotSmaller };

// From ONNX's words "linear", "half_pixel", "round_prefer_floor", "stretch";
// InvalidArgument names the word.
absl::StatusOr<ResizeMode> ParseResizeMode(absl::string_view word);
absl::StatusOr<ResizeCoordinates> ParseResizeCoordinates(
    absl::string_view word);
absl::StatusOr<ResizeRounding> ParseResizeRounding(absl::string_view word);
absl::StatusOr<ResizeAspect> ParseResizeAspect(absl::string_view word);

struct ResizeOptions {
  ResizeMode mode = ResizeMode::kNearest;
  ResizeCoordinates coordinates = ResizeCoordinates::kHalfPixel;
  ResizeRounding rounding = ResizeRounding::kRoundPreferFloor;  // kNearest
  ResizeAspect aspect = ResizeAspect::kStretch;  // where sizes are given
  double cubic_coefficient = -0.75;              // kCubic
  // Cells outside the input do not count; otherwise the edge repeats.
  bool exclude_outside = false;
  bool antialias = false;  // kLinear and kCubic: average when shrinking
};

// One axis to resize: exactly one of scale and size is set.
struct ResizeTarget {
  int axis = 0;
  std::optional<double> scale;
  std::optional<int64_t> size;
  // kTfCropAndResize: the part of the axis that the output shows, 0 .. 1.
  double roi_begin = 0;
  double roi_end = 1;
};

// Cells that lie outside the input under kTfCropAndResize, where the output
// is the extrapolation value: 1 there, 0 elsewhere. The shape broadcasts to
// the output's.
struct ResizeMask {
  Shape shape;
  std::vector<double> numbers;
};

struct ResizeTable {
  // Axes that stay as they are have no table. The op gives 0 where the mask
  // is 1.
  ResizeAttributes attributes;
  Shape shape;                     // of the output
  std::optional<ResizeMask> mask;  // none when no cell lies outside
};

// InvalidArgument: an axis that does not exist or stands twice, a number out
// of range, an axis without cells that shall get some, or tables of more than
// kMaxResizeEntries entries.
absl::StatusOr<ResizeTable> MakeResizeTable(
    const Shape& input, absl::Span<const ResizeTarget> targets,
    const ResizeOptions& options);

// Entries of one axis's table, and of the mask.
inline constexpr int64_t kMaxResizeEntries = int64_t{1} << 24;

}  // namespace gpupool::engine
