#include "engine/metrics/score_ranks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace gpupool::engine {
namespace {

using Scored = std::pair<float, uint8_t>;  // score, belongs

// Returns the sum of the ranks, from 1, of the rows that belong. Equal scores
// share the mean of their ranks.
double RankSum(const std::vector<Scored>& sorted) {
  double sum = 0;
  for (size_t begin = 0, end = 0; begin < sorted.size(); begin = end) {
    double belong = 0;
    for (; end < sorted.size() && sorted[end].first == sorted[begin].first;
         ++end) {
      belong += sorted[end].second;
    }
    sum += belong * 0.5 * static_cast<double>(begin + 1 + end);
  }
  return sum;
}

std::optional<double> AreaOf(std::vector<Scored> rows) {
  double yes = 0;
  for (const Scored& row : rows) yes += row.second;
  const double no = static_cast<double>(rows.size()) - yes;
  if (yes == 0 || no == 0) return std::nullopt;
  std::sort(rows.begin(), rows.end(),
            [](const Scored& a, const Scored& b) { return a.first < b.first; });
  return (RankSum(rows) - yes * (yes + 1) / 2) / (yes * no);
}

}  // namespace

void AddClassScores(absl::Span<const float> scores, int64_t label,
                    ScoreTable& table) {
  if (scores.size() == 2) {
    table.scores.push_back(scores[1] - scores[0]);
    table.belongs.push_back(label == 1);
    return;
  }
  const double most = *std::max_element(scores.begin(), scores.end());
  const size_t classes = scores.size();
  // The exponentials of the classes behind each one. A difference of their
  // total and one of them would lose its digits.
  std::vector<double> behind(classes + 1, 0.0);
  for (size_t c = classes; c-- > 0;) {
    behind[c] = behind[c + 1] + std::exp(double{scores[c]} - most);
  }
  double before = 0;
  for (size_t c = 0; c < classes; ++c) {
    const double own = double{scores[c]} - most;
    table.scores.push_back(
        static_cast<float>(own - std::log(before + behind[c + 1])));
    table.belongs.push_back(static_cast<int64_t>(c) == label);
    before += std::exp(own);
  }
}

std::optional<double> AreaUnderCurve(const ScoreTable& table) {
  double sum = 0;
  int64_t counted = 0;
  for (int64_t c = 0; c < table.columns; ++c) {
    std::vector<Scored> rows;
    rows.reserve(static_cast<size_t>(table.rows()));
    for (auto i = static_cast<size_t>(c); i < table.scores.size();
         i += static_cast<size_t>(table.columns)) {
      const float score = table.scores[i];
      rows.emplace_back(
          std::isnan(score) ? -std::numeric_limits<float>::infinity() : score,
          table.belongs[i]);
    }
    const std::optional<double> area = AreaOf(std::move(rows));
    if (!area.has_value()) continue;
    sum += *area;
    ++counted;
  }
  if (counted == 0) return std::nullopt;
  return sum / static_cast<double>(counted);
}

}  // namespace gpupool::engine
