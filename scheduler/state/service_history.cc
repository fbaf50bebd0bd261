// Gittins' index over a histogram of run times, see service_history.h.
#include "scheduler/state/service_history.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gpupool::scheduler {
namespace {

constexpr double kFirstCell = 10;  // end of cell 0, in seconds
constexpr size_t kCellsPerDoubling = 2;

size_t CellOf(double seconds, size_t cells) {
  if (!(seconds >= kFirstCell)) return 0;
  const double cell = 1 + std::floor(static_cast<double>(kCellsPerDoubling) *
                                     std::log2(seconds / kFirstCell));
  return std::min(static_cast<size_t>(cell), cells - 1);
}

double StartOf(size_t cell) {
  if (cell == 0) return 0;
  return kFirstCell * std::exp2(static_cast<double>(cell - 1) /
                                static_cast<double>(kCellsPerDoubling));
}

}  // namespace

void ServiceHistory::Add(absl::Duration run) {
  const double seconds = std::max(absl::ToDoubleSeconds(run), 0.0);
  const size_t cell = CellOf(seconds, kCells);
  ended_[cell] += 1;
  seconds_[cell] += seconds;
  ++jobs_;
  if (jobs_ < kFewJobs || jobs_ * 10 < learned_jobs_ * 11) return;
  Learn();
}

// Computes the index of every age, from the last cell down. For each end of the
// span: (time of the jobs that end in it + span times those that do not) /
// ends.
void ServiceHistory::Learn() {
  learned_jobs_ = jobs_;
  learned_cells_ = kCells;
  while (ended_[learned_cells_ - 1] == 0) --learned_cells_;
  double alive = 0;  // jobs that reach the cell's start
  for (size_t cell = learned_cells_; cell-- > 0;) {
    alive += ended_[cell];
    const double age = StartOf(cell);
    double best = std::numeric_limits<double>::infinity();
    double done = 0;   // jobs that end from the age on to the end of `last`
    double spent = 0;  // their time since the age
    for (size_t last = cell; last < learned_cells_; ++last) {
      done += ended_[last];
      spent += seconds_[last] - ended_[last] * age;
      if (done == 0) continue;
      const double rest = (alive - done) * (StartOf(last + 1) - age);
      best = std::min(best, (spent + rest) / done);
    }
    completion_[cell] = best;
  }
  Smooth();
}

// Averages the logarithms over neighbouring cells: costs spread over orders of
// magnitude, and few jobs end in one cell.
void ServiceHistory::Smooth() {
  // Sums of logarithms over the cells before.
  std::array<double, kCells + 1> sums{};
  for (size_t cell = 0; cell < learned_cells_; ++cell) {
    sums[cell + 1] = sums[cell] + std::log(std::max(completion_[cell], 1e-3));
  }
  constexpr size_t kReach = kCellsPerDoubling;
  for (size_t cell = 0; cell < learned_cells_; ++cell) {
    const size_t first = cell > kReach ? cell - kReach : 0;
    const size_t end = std::min(cell + kReach + 1, learned_cells_);
    completion_[cell] =
        std::exp((sums[end] - sums[first]) / static_cast<double>(end - first));
  }
}

absl::Duration ServiceHistory::PerCompletion(absl::Duration attained) const {
  const size_t cell = CellOf(absl::ToDoubleSeconds(attained), kCells);
  if (cell >= learned_cells_) return attained;
  return absl::Seconds(completion_[cell]);
}

absl::Duration ServiceHistory::NextChange(absl::Duration attained) {
  // The end of a cell, rounded up so that it lies in the next one.
  size_t cell = CellOf(absl::ToDoubleSeconds(attained), kCells) + 1;
  absl::Duration next = absl::Seconds(StartOf(cell)) + absl::Nanoseconds(1);
  if (next <= attained) {
    next = absl::Seconds(StartOf(cell + 1)) + absl::Nanoseconds(1);
  }
  return next;
}

}  // namespace gpupool::scheduler
