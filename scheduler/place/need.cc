#include "scheduler/place/need.h"

#include <algorithm>

namespace gpupool::scheduler {
namespace {

// Returns the job as a visitor of reserved devices. A useful run covers the
// cost of a restart and the queue's minimum run.
Visitor VisitorOf(const State& state, const Job& job) {
  absl::Duration left = absl::InfiniteDuration();
  for (const auto& whole : {job.expected_run, job.max_run}) {
    if (whole) left = std::min(left, *whole - job.Attained(state.now()));
  }
  return {job.tenant,
          std::max(state.restart_cost(), state.QueueOf(job).min_run), left};
}

}  // namespace

Need NeedOf(const State& state, const Job& job) {
  Need need{job.bytes, job.wanted_device, job.device_count,
            job.id,    job.demands,       &state.queues().at(job.queue)};
  if (!state.reservations().empty()) need.visitor = VisitorOf(state, job);
  need.spares_cpu = SparesCpu(job.wanted_device, need.queue->has_accelerators);
  return need;
}

Need NeedOf(const State& state, const Version& version) {
  Need need{.bytes = version.bytes, .wanted_device = version.wanted_device};
  need.spares_cpu =
      SparesCpu(version.wanted_device, state.queues().has_accelerators());
  return need;
}

Need LeastNeed(const Queues::Entry* queue) {
  // The empty wish and spares_cpu = false accept every device.
  return {.bytes = 0,
          .wanted_device = {},
          .devices = 1,
          .job = JobId(),
          .demands = {},
          .queue = queue};
}

bool KindMayMatch(absl::string_view kind, const Need& need) {
  return TakesKind(need.wanted_device, kind) &&
         !(need.spares_cpu && kind == kCpuKind);
}

}  // namespace gpupool::scheduler
