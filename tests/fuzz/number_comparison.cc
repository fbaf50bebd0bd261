#include "tests/fuzz/number_comparison.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"

namespace gpupool::engine::fuzz {
namespace {

using Runs = std::vector<std::vector<double>>;

struct Limits {
  double unit;    // in the last place of 1
  double normal;  // the smallest
};

Limits LimitsOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return {std::ldexp(1.0, -10), std::ldexp(1.0, -22)};
    case DType::kBFloat16:
      return {std::ldexp(1.0, -7), std::ldexp(1.0, -126)};
    case DType::kFloat64:
      // Attributes of the file have the precision of float32.
      return {std::ldexp(1.0, -26), std::ldexp(1.0, -1022)};
    default:
      return {std::ldexp(1.0, -23), std::ldexp(1.0, -126)};
  }
}

bool SameClass(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return true;
}

// Returns whether the runs agree on the class of element i, or on the number
// itself for types that are not floating.
bool IsStable(DType dtype, const Runs& runs, size_t i) {
  for (const auto& run : runs) {
    if (!SameClass(run[i], runs[0][i])) return false;
    if (!IsFloating(dtype) && run[i] != runs[0][i]) return false;
  }
  return true;
}

double Spread(const Runs& runs, size_t i) {
  double spread = 0;
  for (const auto& run : runs) {
    spread = std::max(spread, std::abs(run[i] - runs[0][i]));
  }
  return spread;
}

double MeanSpread(DType dtype, const Runs& runs) {
  double sum = 0, count = 0;
  for (size_t i = 0; i < runs[0].size(); ++i) {
    if (!IsStable(dtype, runs, i) || !std::isfinite(runs[0][i])) continue;
    sum += Spread(runs, i);
    ++count;
  }
  return count == 0 ? 0 : sum / count;
}

}  // namespace

Comparison CompareWithRuns(DType dtype, const Runs& runs,
                           const std::vector<double>& got) {
  Comparison result;
  const std::vector<double>& expected = runs[0];
  if (got.size() != expected.size()) {
    result.difference =
        absl::StrCat(got.size(), " elements instead of ", expected.size());
    return result;
  }
  const Limits limits = LimitsOf(dtype);
  const double mean = IsFloating(dtype) ? MeanSpread(dtype, runs) : 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (!IsStable(dtype, runs, i)) {
      ++result.skipped;
      continue;
    }
    ++result.compared;
    double tolerance = 0;
    if (IsFloating(dtype) && std::isfinite(expected[i])) {
      tolerance = 16 * Spread(runs, i) + mean +
                  16 * limits.unit * std::abs(expected[i]) + limits.normal;
    }
    const bool same = SameClass(got[i], expected[i]) &&
                      (!std::isfinite(expected[i]) ||
                       std::abs(got[i] - expected[i]) <= tolerance);
    if (same || !result.difference.empty()) continue;
    result.difference =
        absl::StrCat("element ", i, " is ", got[i], " instead of ", expected[i],
                     ", tolerance ", tolerance);
  }
  return result;
}

}  // namespace gpupool::engine::fuzz
