// Mean absolute error and coefficient of determination of predicted numbers.
// Values; not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace gpupool::engine {

class NumberSums {
 public:
  // Rows of `columns` numbers each.
  explicit NumberSums(int64_t columns)
      : columns_(columns), numbers_(static_cast<size_t>(1 + 4 * columns)) {}

  void Add(absl::Span<const float> outputs, absl::Span<const float> targets);
  // Adds the rows of other sums, in the form of numbers().
  void Merge(absl::Span<const double> other);

  // Returns the mean of |output - target| over all numbers; 0 without rows.
  double MeanAbsoluteError() const;
  // Returns 1 - sum (output - target)^2 / sum (target - mean)^2, the mean over
  // the columns. A column whose targets are all equal gives 1 when every output
  // is right, and 0 otherwise, as in scikit-learn.
  double R2() const;

  // Returns everything as plain numbers, to be merged on the other ranks of a
  // job.
  absl::Span<const double> numbers() const { return numbers_; }

 private:
  // Sums of one column; see Chan, Golub and LeVeque 1979 for their merging.
  struct Column {
    double mean = 0;      // of the targets
    double spread = 0;    // sum of (target - mean)^2
    double squares = 0;   // sum of (output - target)^2
    double absolute = 0;  // sum of |output - target|
  };
  static Column At(absl::Span<const double> numbers, int64_t column);
  void Set(int64_t column, const Column& sums);

  int64_t columns_;
  std::vector<double> numbers_;  // rows, then four for each column
};

}  // namespace gpupool::engine
