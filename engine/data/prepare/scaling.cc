#include "engine/data/prepare/scaling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {
namespace {

// Calls `use` with each of the rows as floats.
template <typename Use>
void ForEachRow(const Column& column, absl::Span<const uint32_t> rows,
                const Use& use) {
  std::vector<float> numbers(column.width);
  for (uint32_t row : rows) {
    Convert(column, row * column.width, absl::MakeSpan(numbers));
    use(numbers);
  }
}

// Returns the scaling (x - offset) / width. A width of 0 counts as 1, so that
// features that never vary stay finite.
ScalingValues FromOffsetAndWidth(const std::vector<double>& offset,
                                 const std::vector<double>& width) {
  ScalingValues values;
  for (size_t i = 0; i < offset.size(); ++i) {
    const double scale = 1.0 / (width[i] > 0 ? width[i] : 1.0);
    values.scale.push_back(static_cast<float>(scale));
    values.shift.push_back(static_cast<float>(-offset[i] * scale));
  }
  return values;
}

ScalingValues Standardize(const Column& column,
                          absl::Span<const uint32_t> rows) {
  // Two passes in double: the one-pass formula E[x^2] - E[x]^2 would lose the
  // digits of features whose mean is large against their deviation.
  const double count = static_cast<double>(rows.size());
  std::vector<double> mean(column.width), deviation(column.width);
  ForEachRow(column, rows, [&](const std::vector<float>& row) {
    for (uint64_t i = 0; i < mean.size(); ++i) mean[i] += row[i];
  });
  for (double& value : mean) value /= count;
  ForEachRow(column, rows, [&](const std::vector<float>& row) {
    for (uint64_t i = 0; i < mean.size(); ++i) {
      const double distance = row[i] - mean[i];
      deviation[i] += distance * distance;
    }
  });
  for (double& value : deviation) value = std::sqrt(value / count);
  return FromOffsetAndWidth(mean, deviation);
}

ScalingValues MinMax(const Column& column, absl::Span<const uint32_t> rows) {
  std::vector<double> low(column.width,
                          std::numeric_limits<double>::infinity());
  // Holds the maximum until the last loop.
  std::vector<double> width(column.width, -low[0]);
  ForEachRow(column, rows, [&](const std::vector<float>& row) {
    for (uint64_t i = 0; i < low.size(); ++i) {
      low[i] = std::min<double>(low[i], row[i]);
      width[i] = std::max<double>(width[i], row[i]);
    }
  });
  for (uint64_t i = 0; i < low.size(); ++i) width[i] -= low[i];
  return FromOffsetAndWidth(low, width);
}

}  // namespace

absl::Status ValidateScaling(const v1::Scaling& rule) {
  if (rule.has_multiply() &&
      (rule.multiply() == 0 || !std::isfinite(rule.multiply()))) {
    return absl::InvalidArgumentError(
        absl::StrCat("scaling.multiply is ", rule.multiply(),
                     "; it must be finite and not zero"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ScalingValues> ComputeScaling(const v1::Scaling& rule,
                                             const Column& features,
                                             absl::Span<const uint32_t> rows) {
  GPUPOOL_CHECK(!rows.empty());
  RETURN_IF_ERROR(ValidateScaling(rule));
  switch (rule.rule_case()) {
    case v1::Scaling::kStandardize:
      return Standardize(features, rows);
    case v1::Scaling::kMinMax:
      return MinMax(features, rows);
    case v1::Scaling::kMultiply:
    case v1::Scaling::RULE_NOT_SET:
      break;
  }
  GPUPOOL_CHECK(rule.has_multiply());
  ScalingValues values;
  values.scale.assign(features.width, static_cast<float>(rule.multiply()));
  values.shift.assign(features.width, 0.0f);
  return values;
}

}  // namespace gpupool::engine
