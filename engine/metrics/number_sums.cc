#include "engine/metrics/number_sums.h"

#include <cmath>

#include "engine/base/check.h"

namespace gpupool::engine {

NumberSums::Column NumberSums::At(absl::Span<const double> numbers,
                                  int64_t column) {
  const size_t at = static_cast<size_t>(1 + 4 * column);
  return {numbers[at], numbers[at + 1], numbers[at + 2], numbers[at + 3]};
}

void NumberSums::Set(int64_t column, const Column& sums) {
  const size_t at = static_cast<size_t>(1 + 4 * column);
  numbers_[at] = sums.mean;
  numbers_[at + 1] = sums.spread;
  numbers_[at + 2] = sums.squares;
  numbers_[at + 3] = sums.absolute;
}

void NumberSums::Add(absl::Span<const float> outputs,
                     absl::Span<const float> targets) {
  const double rows = ++numbers_[0];
  for (int64_t c = 0; c < columns_; ++c) {
    const double target = targets[static_cast<size_t>(c)];
    const double error = outputs[static_cast<size_t>(c)] - target;
    Column sums = At(numbers_, c);
    const double away = target - sums.mean;
    sums.mean += away / rows;
    sums.spread += away * (target - sums.mean);
    sums.squares += error * error;
    sums.absolute += std::abs(error);
    Set(c, sums);
  }
}

void NumberSums::Merge(absl::Span<const double> other) {
  GPUPOOL_CHECK(other.size() == numbers_.size());
  const double before = numbers_[0], added = other[0];
  if (added == 0) return;
  const double rows = before + added;
  numbers_[0] = rows;
  for (int64_t c = 0; c < columns_; ++c) {
    Column sums = At(numbers_, c);
    const Column more = At(other, c);
    const double away = more.mean - sums.mean;
    sums.mean += away * added / rows;
    sums.spread += more.spread + away * away * before * added / rows;
    sums.squares += more.squares;
    sums.absolute += more.absolute;
    Set(c, sums);
  }
}

double NumberSums::MeanAbsoluteError() const {
  double sum = 0;
  for (int64_t c = 0; c < columns_; ++c) sum += At(numbers_, c).absolute;
  const double count = numbers_[0] * static_cast<double>(columns_);
  return count == 0 ? 0 : sum / count;
}

double NumberSums::R2() const {
  double sum = 0;
  for (int64_t c = 0; c < columns_; ++c) {
    const Column sums = At(numbers_, c);
    if (sums.spread > 0) {
      sum += 1 - sums.squares / sums.spread;
    } else {
      sum += sums.squares == 0 ? 1 : 0;
    }
  }
  return sum / static_cast<double>(columns_);
}

}  // namespace gpupool::engine
