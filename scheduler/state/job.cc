#include "scheduler/state/job.h"

#include <algorithm>

namespace gpupool::scheduler {

QueueKey KeyOf(const Job& job) {
  return {job.queue, job.priority, job.standing, job.id};
}

absl::Duration Job::Attained(absl::Time now) const {
  return run_since < now ? attained + (now - run_since) : attained;
}

bool Job::MayStart() const { return MayStartButForLimit() && !over_limit; }

bool Job::MayStartButForLimit() const {
  return state == JobState::kQueued && !held && !untried && after_ok.empty() &&
         after_any.empty();
}

absl::Time Job::NextLimit() const {
  if (IsEnded(state) || state == JobState::kCancelling) {
    return absl::InfiniteFuture();
  }
  if (IsLive(state)) {
    const bool runs = max_run && run_since != absl::InfiniteFuture();
    return runs ? std::min(deadline, run_since + (*max_run - attained))
                : deadline;
  }
  // A waiting job that has used up its max_run fails at once.
  if (max_run && attained >= *max_run) return absl::InfinitePast();
  const absl::Duration left =
      expected_run ? std::max(*expected_run - attained, absl::ZeroDuration())
                   : absl::ZeroDuration();
  return attempt == 0 ? std::min(start_before, deadline - left)
                      : deadline - left;
}

const Rank* Job::FindRank(DeviceId device) const {
  for (const Rank& rank : ranks) {
    if (rank.device == device) return &rank;
  }
  return nullptr;
}

bool Job::RunsOn(DeviceId device) const {
  const Rank* rank = FindRank(device);
  return rank != nullptr && !rank->end;
}

bool Job::SavesFrom(DeviceId device) const {
  const Rank* rank = FindRank(device);
  return rank != nullptr && rank->saves();
}

bool Job::HoldsDevices() const {
  return std::any_of(ranks.begin(), ranks.end(),
                     [](const Rank& rank) { return !rank.end; });
}

}  // namespace gpupool::scheduler
