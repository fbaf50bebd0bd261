#include "scheduler/place/placed_jobs.h"

namespace gpupool::scheduler {
namespace {

// Asks for the cache lines that decisions read of a running job.
void LoadEarly(const Job& job) {
  __builtin_prefetch(&job.id);
  __builtin_prefetch(&job.ranks);
  __builtin_prefetch(&job.interruption);
}

}  // namespace

PlacedJobs::PlacedJobs(const State& state) {
  firsts_.reserve(state.devices().size() + 1);
  jobs_.reserve(2 * state.devices().size());
  JobId last;  // the next device often runs the same job
  for (const auto& [id, device] : state.devices()) {
    firsts_.push_back(jobs_.size());
    for (JobId job : device.jobs) {
      const bool is_last = !jobs_.empty() && job == last;
      jobs_.push_back(is_last ? jobs_.back() : &state.jobs().at(job));
      if (!is_last) LoadEarly(*jobs_.back());
      last = job;
    }
  }
  firsts_.push_back(jobs_.size());
}

}  // namespace gpupool::scheduler
