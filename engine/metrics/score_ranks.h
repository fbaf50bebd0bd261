// The area under the ROC curve, exact, from the ranks of all scores. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"

namespace gpupool::engine {

// The scores of rows in some columns, and whether each row belongs to the
// column. Row-major, [rows, columns].
struct ScoreTable {
  int64_t columns = 1;
  std::vector<float> scores;
  std::vector<uint8_t> belongs;  // 0 or 1

  int64_t rows() const { return static_cast<int64_t>(scores.size()) / columns; }
};

// Appends a row of class scores whose label is `label`. Two classes give one
// column, the score of class 1. More give a column for each: the logarithm of
// its odds against all others by the softmax, which has the order of its
// probability but does not round to 1.
void AddClassScores(absl::Span<const float> scores, int64_t label,
                    ScoreTable& table);

// Returns the number of columns that AddClassScores adds.
inline int64_t ScoreColumns(int64_t classes) {
  return classes == 2 ? 1 : classes;
}

// Returns the probability that a row which belongs to the column has a higher
// score than one which does not, where equal scores count half (Mann-Whitney);
// the mean over the columns. Columns to which all rows or none belong do not
// count. None when no column counts. A score that is not a number is below all
// others.
std::optional<double> AreaUnderCurve(const ScoreTable& table);

}  // namespace gpupool::engine
