// Forecasts when waiting jobs will start, by running the scheduler itself
// forward in virtual time over a copy of the state.
//
// A running job ends when its training loop, or its user, says that it will. So
// do the jobs that start in the forecast. Reservations of devices begin and
// end. The forecast knows of no other events: no job is submitted, no worker is
// lost, and models neither take nor give back memory.
//
// Thread-safety: pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "scheduler/state/state.h"
#include "scheduler/step/event.h"

namespace gpupool::scheduler {

// Maximum number of events in one forecast. Bounds its cost.
inline constexpr size_t kMostForecastEvents = 20000;

struct Forecast {
  // Time and place of the job's next start. Without a value nobody knows it,
  // for the reason in `why_unknown`.
  std::optional<absl::Time> start;
  std::vector<DeviceId> devices;  // by rank
  std::string why_unknown;
  std::string waits_for;  // the first obstacle; only for ForecastSubmission
};

// Returns the forecast of each of `jobs`, without those that are unknown or
// running. `now` must not be before the state's time. Takes the state by value:
// see State::Clone.
absl::btree_map<JobId, Forecast> ForecastStarts(
    State state, absl::Span<const JobId> jobs, absl::Time now,
    size_t most_events = kMostForecastEvents);

// Returns the forecast of a job that would be submitted now, under an unused
// id.
Forecast ForecastSubmission(State state, const JobSubmitted& job,
                            absl::Time now,
                            size_t most_events = kMostForecastEvents);

}  // namespace gpupool::scheduler
