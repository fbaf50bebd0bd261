// Computes the tables of the resize op as ONNX Resize (operator sets 10 to 19)
// and Upsample specify: interpolation, coordinates, sizes or scales. Pure
// functions over plain values.
//
// If scales are given, a cell's origin is computed with the scale instead of
// the ratio of the sizes, as in ONNX and PyTorch. For align_corners and
// tf_crop_and_resize the output's length is a whole number, as in the
// specification, PyTorch and ONNX Runtime.
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

// The map from a cell of the output to a position in the input, by ONNX's
// names.
enum class ResizeCoordinates : uint8_t {
  kHalfPixel,
  kHalfPixelSymmetric,
  kPytorchHalfPixel,
  kAlignCorners,
  kAsymmetric,
  kTfHalfPixelForNn,
  kTfCropAndResize,
};

// The rounding of a position between two cells.
enum class ResizeRounding : uint8_t {
  kRoundPreferFloor,
  kRoundPreferCeil,
  kFloor,
  kCeil,
};

// The meaning of sizes: the output's size itself, or a box that the output fits
// into or covers while it keeps the input's proportions.
enum class ResizeAspect : uint8_t { kStretch, kNotLarger, kNotSmaller };

// Parse ONNX's words "linear", "half_pixel", "round_prefer_floor", "stretch".
// INVALID_ARGUMENT names the word.
absl::StatusOr<ResizeMode> ParseResizeMode(absl::string_view word);
absl::StatusOr<ResizeCoordinates> ParseResizeCoordinates(
    absl::string_view word);
absl::StatusOr<ResizeRounding> ParseResizeRounding(absl::string_view word);
absl::StatusOr<ResizeAspect> ParseResizeAspect(absl::string_view word);

struct ResizeOptions {
  ResizeMode mode = ResizeMode::kNearest;
  ResizeCoordinates coordinates = ResizeCoordinates::kHalfPixel;
  ResizeRounding rounding = ResizeRounding::kRoundPreferFloor;  // for kNearest
  ResizeAspect aspect = ResizeAspect::kStretch;                 // for sizes
  double cubic_coefficient = -0.75;                             // for kCubic
  // Whether cells outside of the input are left out. Otherwise the edge
  // repeats.
  bool exclude_outside = false;
  bool antialias = false;  // average when shrinking, for kLinear and kCubic
};

// An axis to resize. Exactly one of scale and size is set.
struct ResizeTarget {
  int axis = 0;
  std::optional<double> scale;
  std::optional<int64_t> size;
  // Part of the axis that the output shows, within 0 .. 1, for
  // kTfCropAndResize.
  double roi_begin = 0;
  double roi_end = 1;
};

// Output cells that lie outside of the input under kTfCropAndResize: 1 there, 0
// elsewhere. There the output is the extrapolation value. The shape broadcasts
// to the output's.
struct ResizeMask {
  Shape shape;
  std::vector<double> numbers;
};

struct ResizeTable {
  // Axes that are not resized have no table. The op gives 0 where the mask is
  // 1.
  ResizeAttributes attributes;
  Shape shape;                     // of the output
  std::optional<ResizeMask> mask;  // none when no cell lies outside
};

// Returns the tables. INVALID_ARGUMENT for an axis that does not exist or is
// named twice, a number out of range, an empty axis that would get cells, or
// tables of more than kMaxResizeEntries entries.
absl::StatusOr<ResizeTable> MakeResizeTable(
    const Shape& input, absl::Span<const ResizeTarget> targets,
    const ResizeOptions& options);

// Most entries of one axis's table, and of the mask.
inline constexpr int64_t kMaxResizeEntries = int64_t{1} << 24;

}  // namespace gpupool::engine
