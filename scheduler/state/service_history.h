// How long the jobs of a pool run, learned from those that have ended, and what
// that says about a job of which only the age is known.
//
// A pool's run times spread over six orders of magnitude: most jobs end within
// minutes, and one that has run for an hour will probably run for many more.
// Gittins' index turns such a distribution into the order that ends most jobs
// soonest when no run time is known (Gittins 1979; Aalto, Ayesta and Righter,
// "On the Gittins index in the M/G/1 queue", 2009: least attained service is
// its special case for a falling hazard rate). Here its reciprocal is used: the
// device time that one completion costs, if the job is run for the best span.
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
  // With fewer jobs nothing has been learned yet.
  static constexpr uint64_t kFewJobs = 50;

  // A job has ended by itself after having run for `run` in all. What was
  // learned is renewed whenever a tenth more jobs are known.
  void Add(absl::Duration run);

  uint64_t jobs() const { return jobs_; }

  // For a job that has run for `attained` so far:
  //   min over d > 0 of  E[min(X - attained, d)] / P(X - attained <= d)
  // given X > attained, where X is the run time of the jobs that ended. Since
  // few of them end in one cell, it is the geometric mean over the ages within
  // a factor of two. Beyond the longest run time, and while few are known:
  // `attained`. Constant between the ages that NextChange names.
  absl::Duration PerCompletion(absl::Duration attained) const;

  // The first age after `attained` at which PerCompletion may differ.
  static absl::Duration NextChange(absl::Duration attained);

 private:
  // Cell 0 ends at ten seconds; each of the others is longer by the square root
  // of two, up to more than fifty years.
  static constexpr size_t kCells = 56;

  void Learn();
  void Smooth();

  std::array<double, kCells> ended_{};       // jobs whose run time lies there
  std::array<double, kCells> seconds_{};     // sum of those run times
  std::array<double, kCells> completion_{};  // PerCompletion, in seconds
  uint64_t jobs_ = 0;
  uint64_t learned_jobs_ = 0;
  size_t learned_cells_ = 0;  // beyond them nothing has ended
};

}  // namespace gpupool::scheduler
