// Learns how long the jobs of a pool run, and what that tells about a job of
// which only the age is known.
//
// Run times of a pool spread over six orders of magnitude: most jobs end within
// minutes, and a job that has run for an hour will probably run for many more.
// Gittins' index turns such a distribution into the order that ends most jobs
// soonest when no run time is known (Gittins 1979; Aalto, Ayesta and Righter,
// "On the Gittins index in the M/G/1 queue", 2009: least attained service is
// its special case for a falling hazard rate). This class uses its reciprocal:
// the device time that one completion costs, if the job is run for the best
// span.
//
// Thread-safety: a value; as any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace gpupool::scheduler {

class ServiceHistory {
 public:
  // Minimum number of jobs before anything is learned.
  static constexpr uint64_t kFewJobs = 50;

  // Adds a job that ended by itself after `run` in all. Renews what was learned
  // whenever a tenth more jobs are known.
  void Add(absl::Duration run);

  uint64_t jobs() const { return jobs_; }

  // Returns the cost of one completion for a job that has run for `attained`:
  //   min over d > 0 of  E[min(X - attained, d)] / P(X - attained <= d)
  // given X > attained, where X is the run time of the jobs that ended. Since
  // few of them end in one cell, it is the geometric mean over the ages within
  // a factor of two. Beyond the longest run time, and while few are known:
  // `attained`. Constant between the ages that NextChange names.
  absl::Duration PerCompletion(absl::Duration attained) const;

  // Returns the first age after `attained` at which PerCompletion may differ.
  static absl::Duration NextChange(absl::Duration attained);

 private:
  // Number of cells. Cell 0 ends at ten seconds. Each further one ends at the
  // square root of two times the end before it, up to more than fifty years.
  static constexpr size_t kCells = 56;

  void Learn();
  void Smooth();

  // Number of jobs with a run time in the cell.
  std::array<double, kCells> ended_{};
  std::array<double, kCells> seconds_{};     // sum of their run times
  std::array<double, kCells> completion_{};  // PerCompletion, in seconds
  uint64_t jobs_ = 0;
  uint64_t learned_jobs_ = 0;
  size_t learned_cells_ = 0;  // cells above have no ended job
};

}  // namespace gpupool::scheduler
