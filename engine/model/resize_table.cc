#include "engine/model/resize_table.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

// Bound of the region's begin and end, in lengths of the input.
constexpr double kMaxRoi = 0x1p20;
// Bound of the relative error of a quotient by a scale, which comes as float32.
constexpr double kScaleError = 0x1p-23;

template <typename T>
struct Word {
  absl::string_view word;
  T meaning;
};

template <typename T>
absl::StatusOr<T> Parse(absl::string_view what, absl::string_view word,
                        absl::Span<const Word<T>> words) {
  std::vector<absl::string_view> known;
  for (const Word<T>& candidate : words) {
    if (candidate.word == word) return candidate.meaning;
    known.push_back(candidate.word);
  }
  return absl::InvalidArgumentError(absl::StrCat("the ", what, " '", word,
                                                 "' of a resize is none of ",
                                                 absl::StrJoin(known, ", ")));
}

template <typename... Parts>
absl::Status Refuse(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("resize: ", parts...));
}

// One axis with resolved sizes and scales.
struct AxisPlan {
  int axis;
  int64_t input;
  int64_t output;
  // Cells of the output per cell of the input. Without a value this is the
  // exact ratio of the sizes.
  std::optional<double> scale;
  double roi_begin, roi_end;

  double ratio() const {
    return scale.value_or(static_cast<double>(output) /
                          static_cast<double>(input));
  }
};

// Converts `length` cells of the output to cells of the input. A scale of 0.6
// is not exactly 3/5, so a result close to a cell's middle or border snaps to
// it.
double ToInput(const AxisPlan& plan, double length) {
  if (!plan.scale.has_value()) {
    return length * static_cast<double>(plan.input) /
           static_cast<double>(plan.output);
  }
  const double origin = length / *plan.scale;
  const double half = std::round(2 * origin) / 2;
  return std::abs(origin - half) <= kScaleError * origin ? half : origin;
}

// Returns the position of output cell `o`, in cells of the input.
double Origin(const AxisPlan& plan, ResizeCoordinates coordinates, int64_t o) {
  const auto at = static_cast<double>(o);
  const auto last_input = static_cast<double>(plan.input - 1);
  const auto last_output = static_cast<double>(plan.output - 1);
  switch (coordinates) {
    case ResizeCoordinates::kHalfPixel:
      return ToInput(plan, at + 0.5) - 0.5;
    case ResizeCoordinates::kHalfPixelSymmetric: {
      // Rounding cut the output's length. Half of the cut belongs to each side.
      const double whole = static_cast<double>(plan.input) * plan.ratio();
      const double cut = 1 - static_cast<double>(plan.output) / whole;
      return static_cast<double>(plan.input) / 2 * cut +
             ToInput(plan, at + 0.5) - 0.5;
    }
    case ResizeCoordinates::kPytorchHalfPixel:
      return plan.output > 1 ? ToInput(plan, at + 0.5) - 0.5 : 0;
    case ResizeCoordinates::kAlignCorners:
      return plan.output > 1 ? at * last_input / last_output : 0;
    case ResizeCoordinates::kAsymmetric:
      return ToInput(plan, at);
    case ResizeCoordinates::kTfHalfPixelForNn:
      return ToInput(plan, at + 0.5);
    case ResizeCoordinates::kTfCropAndResize:
      break;
  }
  if (plan.output <= 1) {
    return 0.5 * (plan.roi_begin + plan.roi_end) * last_input;
  }
  return plan.roi_begin * last_input +
         at * (plan.roi_end - plan.roi_begin) * last_input / last_output;
}

double Round(ResizeRounding rounding, double x) {
  switch (rounding) {
    case ResizeRounding::kRoundPreferFloor:
      return std::ceil(x - 0.5);
    case ResizeRounding::kRoundPreferCeil:
      return std::floor(x + 0.5);
    case ResizeRounding::kFloor:
      return std::floor(x);
    case ResizeRounding::kCeil:
      break;
  }
  return std::ceil(x);
}

// Returns the weight of a cell at a distance in units of the filter. Linear
// filters are a triangle. Cubic filters are the convolution of Keys 1981,
// equation (4).
double Kernel(const ResizeOptions& options, double distance) {
  const double x = std::abs(distance);
  if (options.mode == ResizeMode::kLinear) return std::max(0.0, 1 - x);
  const double a = options.cubic_coefficient;
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

// Returns the factor of distances. Below 1 the filter covers more cells.
double FilterScale(const AxisPlan& plan, const ResizeOptions& options) {
  return options.antialias ? std::min(1.0, plan.ratio()) : 1.0;
}

// Returns the number of cells on each side that may have weight.
double Reach(const AxisPlan& plan, const ResizeOptions& options) {
  const double support = options.mode == ResizeMode::kLinear ? 1 : 2;
  return std::ceil(support / FilterScale(plan, options));
}

// Appends the taps of one cell of the output, at `origin`, to the table.
void AddTaps(const AxisPlan& plan, const ResizeOptions& options, double origin,
             ResizeAxis& table) {
  const int64_t last = plan.input - 1;
  if (options.mode == ResizeMode::kNearest) {
    const auto cell = static_cast<int64_t>(Round(options.rounding, origin));
    table.indices.push_back(std::clamp<int64_t>(cell, 0, last));
    table.weights.push_back(1);
    return;
  }
  const double shrink = FilterScale(plan, options);
  const auto base = static_cast<int64_t>(std::floor(origin));
  const int64_t first = base - table.taps / 2 + 1;
  double sum = 0;
  for (int64_t cell = first; cell < first + table.taps; ++cell) {
    double weight =
        Kernel(options, shrink * (static_cast<double>(cell) - origin));
    if (options.exclude_outside && (cell < 0 || cell > last)) weight = 0;
    table.indices.push_back(std::clamp<int64_t>(cell, 0, last));
    table.weights.push_back(weight);
    sum += weight;
  }
  double* weights =
      &table.weights[table.weights.size() - static_cast<size_t>(table.taps)];
  if (sum == 0) {
    // All cells lie outside, so all taps have the same edge cell.
    weights[0] = 1;
  } else if (options.exclude_outside || options.antialias) {
    for (int t = 0; t < table.taps; ++t) weights[t] /= sum;
  }
}

bool IsIdentity(const AxisPlan& plan, const ResizeAxis& table) {
  if (plan.input != plan.output) return false;
  for (size_t i = 0; i < table.indices.size(); ++i) {
    const auto cell = static_cast<int64_t>(i) / table.taps;
    const bool here = table.indices[i] == cell;
    if (table.weights[i] != 0 && !here) return false;
  }
  for (int64_t o = 0; o < plan.output; ++o) {
    double sum = 0;
    for (int t = 0; t < table.taps; ++t) {
      sum += table.weights[static_cast<size_t>(o * table.taps + t)];
    }
    if (sum != 1) return false;
  }
  return true;
}

// Makes the table of one axis. outside[o] tells whether cell o lies outside.
absl::StatusOr<ResizeAxis> AxisTable(const AxisPlan& plan,
                                     const ResizeOptions& options,
                                     std::vector<bool>& outside) {
  if (plan.output == 0) {
    return ResizeAxis{
        .axis = plan.axis, .size = 0, .indices = {}, .weights = {}};
  }
  const double taps =
      options.mode == ResizeMode::kNearest ? 1 : 2 * Reach(plan, options);
  if (taps * static_cast<double>(plan.output) >
      static_cast<double>(kMaxResizeEntries)) {
    return Refuse("axis ", plan.axis, " from ", plan.input, " to ", plan.output,
                  " cells needs a table of more than ", kMaxResizeEntries,
                  " entries");
  }
  ResizeAxis table{.axis = plan.axis,
                   .size = plan.output,
                   .taps = static_cast<int>(taps),
                   .indices = {},
                   .weights = {}};
  const auto last = static_cast<double>(plan.input - 1);
  for (int64_t o = 0; o < plan.output; ++o) {
    const double origin = Origin(plan, options.coordinates, o);
    outside.push_back(options.coordinates ==
                          ResizeCoordinates::kTfCropAndResize &&
                      (origin < 0 || origin > last));
    // Further out all taps are the edge cell, and integers would overflow.
    AddTaps(plan, options, std::clamp(origin, -2 * taps, last + 2 * taps),
            table);
    if (outside.back()) {
      // The mask gives these cells their value.
      std::fill(table.weights.end() - table.taps, table.weights.end(), 0.0);
    }
  }
  return table;
}

// Resolves the sizes and scales of one axis, except for the aspect ratio.
absl::StatusOr<AxisPlan> PlanAxis(const Shape& input,
                                  const ResizeTarget& target,
                                  const ResizeOptions& options) {
  if (target.axis < 0 || target.axis >= input.rank()) {
    return Refuse("axis ", target.axis, " of ", input.ToString(),
                  " does not exist");
  }
  if (target.scale.has_value() == target.size.has_value()) {
    return Refuse("axis ", target.axis, " needs either a scale or a size");
  }
  if (!(std::abs(target.roi_begin) <= kMaxRoi &&
        std::abs(target.roi_end) <= kMaxRoi)) {
    return Refuse("the region ", target.roi_begin, " .. ", target.roi_end,
                  " of axis ", target.axis, " must lie within -", kMaxRoi,
                  " .. ", kMaxRoi);
  }
  AxisPlan plan{.axis = target.axis,
                .input = input[target.axis],
                .output = target.size.value_or(0),
                .scale = target.scale,
                .roi_begin = target.roi_begin,
                .roi_end = target.roi_end};
  if (target.scale.has_value()) {
    double length = static_cast<double>(plan.input);
    if (options.coordinates == ResizeCoordinates::kTfCropAndResize) {
      length *= plan.roi_end - plan.roi_begin;
    }
    // The product is in float32, like the scale: 10 * 0.7 is 7 and not slightly
    // less.
    const double cells = std::floor(static_cast<float>(length) *
                                    static_cast<float>(*target.scale));
    if (!(*target.scale > 0) || !(cells >= 0) ||
        !(cells <= static_cast<double>(kMaxElements))) {
      return Refuse("the scale ", *target.scale, " of axis ", target.axis,
                    " with ", plan.input, " cells is out of range");
    }
    plan.output = static_cast<int64_t>(cells);
  }
  if (plan.output < 0 || plan.output > kMaxElements) {
    return Refuse("the size ", plan.output, " of axis ", target.axis,
                  " must lie between 0 and ", kMaxElements);
  }
  if (plan.input == 0 && plan.output > 0) {
    return Refuse("axis ", target.axis, " has no cells and cannot get ",
                  plan.output);
  }
  return plan;
}

// Gives all axes with sizes the same scale, which keeps the aspect ratio.
void KeepAspect(ResizeAspect aspect, std::vector<AxisPlan>& plans) {
  std::optional<double> common;
  for (const AxisPlan& plan : plans) {
    if (plan.scale.has_value() || plan.input == 0) continue;
    const double ratio = plan.ratio();
    const double chosen = common.value_or(ratio);
    common = aspect == ResizeAspect::kNotLarger ? std::min(chosen, ratio)
                                                : std::max(chosen, ratio);
  }
  for (AxisPlan& plan : plans) {
    if (plan.scale.has_value() || !common.has_value()) continue;
    // Halves round up. The bound is one that no shape may have.
    const double cells =
        std::floor(*common * static_cast<double>(plan.input) + 0.5);
    plan.output = static_cast<int64_t>(
        std::min(cells, 2 * static_cast<double>(kMaxElements)));
    if (*common > 0) plan.scale = common;
  }
}

// Marks the cells outside along any axis. Without such cells there is no mask.
absl::StatusOr<std::optional<ResizeMask>> MakeMask(
    const std::vector<std::vector<bool>>& outside) {
  std::vector<int64_t> dims;
  bool any = false;
  for (const std::vector<bool>& axis : outside) {
    const bool here = std::find(axis.begin(), axis.end(), true) != axis.end();
    any = any || here;
    // An axis without cells outside is broadcast.
    dims.push_back(here ? static_cast<int64_t>(axis.size()) : 1);
  }
  if (!any) return std::optional<ResizeMask>();
  ASSIGN_OR_RETURN(const Shape shape, Shape::CreateMaybeEmpty(dims));
  if (shape.elements() > kMaxResizeEntries) {
    return Refuse("the mask ", shape.ToString(), " of cells outside has more ",
                  "than ", kMaxResizeEntries, " elements");
  }
  ResizeMask mask{shape, {}};
  for (int64_t i = 0; i < shape.elements(); ++i) {
    int64_t rest = i;
    bool marked = false;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      const auto& cells = outside[static_cast<size_t>(axis)];
      if (shape[axis] == static_cast<int64_t>(cells.size())) {
        marked = marked || cells[static_cast<size_t>(rest % shape[axis])];
      }
      rest /= shape[axis];
    }
    mask.numbers.push_back(marked ? 1 : 0);
  }
  return std::optional<ResizeMask>(std::move(mask));
}

}  // namespace

absl::StatusOr<ResizeMode> ParseResizeMode(absl::string_view word) {
  return Parse<ResizeMode>("mode", word,
                           {{"nearest", ResizeMode::kNearest},
                            {"linear", ResizeMode::kLinear},
                            {"bilinear", ResizeMode::kLinear},
                            {"cubic", ResizeMode::kCubic}});
}

absl::StatusOr<ResizeCoordinates> ParseResizeCoordinates(
    absl::string_view word) {
  using enum ResizeCoordinates;
  return Parse<ResizeCoordinates>(
      "coordinate transformation", word,
      {{"half_pixel", kHalfPixel},
       {"half_pixel_symmetric", kHalfPixelSymmetric},
       {"pytorch_half_pixel", kPytorchHalfPixel},
       {"align_corners", kAlignCorners},
       {"asymmetric", kAsymmetric},
       {"tf_half_pixel_for_nn", kTfHalfPixelForNn},
       {"tf_crop_and_resize", kTfCropAndResize}});
}

absl::StatusOr<ResizeRounding> ParseResizeRounding(absl::string_view word) {
  using enum ResizeRounding;
  return Parse<ResizeRounding>("nearest mode", word,
                               {{"round_prefer_floor", kRoundPreferFloor},
                                {"round_prefer_ceil", kRoundPreferCeil},
                                {"floor", kFloor},
                                {"ceil", kCeil}});
}

absl::StatusOr<ResizeAspect> ParseResizeAspect(absl::string_view word) {
  using enum ResizeAspect;
  return Parse<ResizeAspect>("aspect ratio policy", word,
                             {{"stretch", kStretch},
                              {"not_larger", kNotLarger},
                              {"not_smaller", kNotSmaller}});
}

absl::StatusOr<ResizeTable> MakeResizeTable(
    const Shape& input, absl::Span<const ResizeTarget> targets,
    const ResizeOptions& options) {
  if (!std::isfinite(options.cubic_coefficient)) {
    return Refuse("the cubic coefficient is ", options.cubic_coefficient);
  }
  std::vector<AxisPlan> plans;
  for (const ResizeTarget& target : targets) {
    ASSIGN_OR_RETURN(const AxisPlan plan, PlanAxis(input, target, options));
    for (const AxisPlan& other : plans) {
      if (other.axis == plan.axis) {
        return Refuse("axis ", plan.axis, " stands twice");
      }
    }
    plans.push_back(plan);
  }
  if (options.aspect != ResizeAspect::kStretch) {
    KeepAspect(options.aspect, plans);
  }
  std::vector<int64_t> dims(input.dims().begin(), input.dims().end());
  for (const AxisPlan& plan : plans) {
    dims[static_cast<size_t>(plan.axis)] = plan.output;
  }
  ResizeTable result;
  ASSIGN_OR_RETURN(result.shape, Shape::CreateMaybeEmpty(dims));
  std::vector<std::vector<bool>> outside(dims.size());
  for (const AxisPlan& plan : plans) {
    ASSIGN_OR_RETURN(
        ResizeAxis table,
        AxisTable(plan, options, outside[static_cast<size_t>(plan.axis)]));
    if (!IsIdentity(plan, table)) {
      result.attributes.axes.push_back(std::move(table));
    }
  }
  ASSIGN_OR_RETURN(result.mask, MakeMask(outside));
  return result;
}

}  // namespace gpupool::engine
