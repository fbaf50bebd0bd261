// When jobs that wait will start: the scheduler itself, run forward in virtual
// time over a copy of the state. What runs ends when its training loop, or its
// user, says that it will; what starts there does too, and reservations of
// devices begin and end. Nothing else happens: no job is submitted, no worker
// lost, and what models take or give back is not foreseen.
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

// Events that are looked ahead; bounds the cost.
inline constexpr size_t kMostForecastEvents = 20000;

struct Forecast {
  // Of its next start, and where. Nothing: nobody knows, for `why_unknown`.
  std::optional<absl::Time> start;
  std::vector<DeviceId> devices;  // by rank
  std::string why_unknown;
  std::string waits_for;  // at first; ForecastSubmission only
};

// Of each of `jobs`; those that are not there or run have none. `now` is not
// before the state's. Takes the state: see State::Clone.
absl::btree_map<JobId, Forecast> ForecastStarts(
    State state, absl::Span<const JobId> jobs, absl::Time now,
    size_t most_events = kMostForecastEvents);

// Of a job that would be submitted now, under an id that is not in use.
Forecast ForecastSubmission(State state, const JobSubmitted& job,
                            absl::Time now,
                            size_t most_events = kMostForecastEvents);

}  // namespace gpupool::scheduler
