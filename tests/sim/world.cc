#include "tests/sim/world.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "scheduler/explain/explain.h"

namespace gpupool::scheduler {
World::World(WorldOptions options)
    : options_(std::move(options)), random_(options_.seed) {
  state_.SetPolicy(options_.policy);
  for (int i = 0; i < options_.devices; ++i) {
    Worker worker;
    worker.device = state_.AddDevice(absl::StrCat("cpu:", i), "cpu",
                                     options_.device_bytes * (i + 1));
    worker.last_to_server = worker.last_to_worker = now_;
    workers_.push_back(std::move(worker));
  }
}

void World::At(absl::Duration delay, std::function<void()> run) {
  pending_.push({now_ + delay, ++order_, std::move(run)});
}

bool World::Chance(double probability) {
  return std::uniform_real_distribution<>(0, 1)(random_) < probability;
}

uint64_t World::Below(uint64_t bound) {
  return std::uniform_int_distribution<uint64_t>(0, bound - 1)(random_);
}

absl::Duration World::Latency() {
  return absl::Microseconds(100 + Below(9900));
}

void World::Fail(const std::string& text) {
  if (!report_.failure.empty()) return;
  report_.failure = absl::StrCat("seed ", options_.seed, ", event ",
                                 report_.events, ": ", text);
}

WorldReport World::Run() {
  for (Worker& worker : workers_) {
    At(Latency(), [this, &worker] { Connect(worker); });
  }
  At(Latency(), [this] { SubmitJobs(); });
  At(Latency(), [this] { Disturb(); });
  At(Latency(), [this] { TouchVersions(); });
  At(Latency(), [this] { AskForJobs(); });
  At(Latency(), [this] { ReserveDevices(); });
  while (!pending_.empty() && report_.failure.empty()) {
    if (report_.events >= options_.max_events && troubled_) {
      troubled_ = false;
      troubled_until_ = now_;
    }
    if (report_.events > 10 * options_.max_events) Fail("never quiet");
    if (!troubled_ && now_ > troubled_until_ + absl::Hours(10)) {
      Fail(absl::StrCat("jobs that never end: ", TextOfWaiting()));
    }
    const Pending next = pending_.top();
    pending_.pop();
    now_ = next.time;
    next.run();
  }
  if (report_.failure.empty() && !Quiet()) {
    Fail(absl::StrCat("jobs that never end: ", TextOfWaiting()));
  }
  for (const auto& [id, device] : state_.devices()) {
    if (report_.failure.empty() && device.job_bytes + device.stray_bytes > 0) {
      Fail(device.name + " never got all bytes back");
    }
  }
  report_.jobs = static_cast<int>(last_job_);
  report_.gangs = static_cast<int>(gangs_.size());
  for (const auto& [id, job_state] : known_) {
    if (job_state == JobState::kSucceeded) {
      ++report_.succeeded;
      if (gangs_.contains(id)) ++report_.gangs_succeeded;
      if (pinned_.contains(id)) ++report_.pinned;
      if (exclusive_.contains(id)) ++report_.exclusive;
    }
    if (job_state == JobState::kFailed) ++report_.failed;
    if (job_state == JobState::kCancelled) ++report_.cancelled;
  }
  return report_;
}

std::string World::TextOfWaiting() const {
  std::string text;
  for (const auto& [id, job] : state_.jobs()) {
    if (IsEnded(job.state)) continue;
    const Explanation why = Explain(state_, job, ServerNow());
    absl::StrAppend(&text, "\njob ", id.value(), " on ", job.device_count,
                    " devices is ", ToString(job.state), " and waits for ",
                    why.waits_for);
    for (const auto& view : why.devices) {
      absl::StrAppend(&text, "; ", view.device.value(), ": ", view.obstacle);
    }
  }
  return text;
}

bool World::SomeRankCools(const Job& job) const {
  return std::any_of(job.ranks.begin(), job.ranks.end(), [&](const Rank& rank) {
    return state_.devices().at(rank.device).cools();
  });
}

bool World::SomeRankIsDrained(const Job& job) const {
  return std::any_of(job.ranks.begin(), job.ranks.end(), [&](const Rank& rank) {
    return state_.devices().at(rank.device).drain.has_value();
  });
}

bool World::KeepsToItsQueue(const Job& job) const {
  if (state_.queues().IsFull(job.queue, 0)) return false;
  return std::all_of(job.ranks.begin(), job.ranks.end(), [&](const Rank& rank) {
    return state_.queues().at(job.queue).MayUse(rank.device);
  });
}

bool World::KeepsFromReserved(const Job& job) const {
  return std::all_of(job.ranks.begin(), job.ranks.end(), [&](const Rank& rank) {
    const TenantReservation* reservation =
        state_.reservations().At(rank.device, state_.now());
    return reservation == nullptr || reservation->Takes(job.tenant);
  });
}

bool World::Quiet() const {
  return known_.size() + array_ids_.size() == last_job_ &&
         std::all_of(known_.begin(), known_.end(),
                     [](const auto& entry) { return IsEnded(entry.second); });
}

void World::Check(const StepResult& result) {
  if (result.stale) ++report_.stale;
  if (result.stale && !result.job_changes.empty() &&
      result.job_changes[0].to != JobState::kStarting) {
    Fail("a stale event changed a job");
  }
  for (const JobChange& change : result.job_changes) {
    if (known_.at(change.job) != change.from) {
      Fail("a change does not start where the last one ended");
    }
    if (absl::Status s = CheckChange(change); !s.ok()) {
      Fail(std::string(s.message()));
    }
    if (change.to == JobState::kRunning && change.from != JobState::kStarting) {
      ++report_.taken_back;
    }
    const Job* job = state_.FindJob(change.job);
    // It would end the attempts of other jobs.
    if (change.to == JobState::kStarting && IsPoisonous(change.job)) {
      Fail("a poisonous job starts");
    }
    report_.poisonous_jobs +=
        change.to == JobState::kFailed &&
        absl::StrContains(change.reason, "before it got a device");
    if (change.to == JobState::kStarting &&
        state_.usage().LevelAtLimit(job->tenant, {}, options_.policy.tenants)) {
      Fail("a tenant has more devices than it may use");
    }
    if (change.to == JobState::kStarting && !KeepsToItsQueue(*job)) {
      Fail("a job starts where, or on more devices than, its queue may");
    }
    if (change.to == JobState::kStarting && !KeepsFromReserved(*job)) {
      Fail("a job starts on a device that is reserved for another tenant");
    }
    if (change.to == JobState::kStarting && SomeRankCools(*job)) {
      Fail("a job starts on a device that cools down");
    }
    if (change.to == JobState::kStarting && SomeRankIsDrained(*job)) {
      Fail("a job starts on a device that is drained");
    }
    if (change.to == JobState::kStarting && cancelled_.contains(change.job)) {
      Fail("a job starts whose cancellation was acknowledged");
    }
    Know(change.job, change.to);
  }
  bool all_heard = true;
  for (const Worker& worker : workers_) all_heard &= worker.server_link != 0;
  if (all_heard) restoring_ = false;
  if (absl::Status s = CheckInvariants(state_, restoring_); !s.ok()) {
    Fail(std::string(s.message()));
  }
}

void World::Count(const StepResult& result) {
  report_.preemptions += static_cast<int>(result.preemptions.size());
  for (const Preemption& preemption : result.preemptions) {
    report_.yielded += preemption.reason == PreemptionReason::kServing;
    report_.shrunk += preemption.reason == PreemptionReason::kResize;
    report_.drained += preemption.reason == PreemptionReason::kDrain;
    report_.outranked += preemption.reason == PreemptionReason::kQueue;
    report_.sent_away += preemption.reason == PreemptionReason::kReservation;
  }
  for (const auto& [id, tasks] : state_.arrays()) {
    report_.held_back += !tasks.standing.empty();
  }
  report_.blamed += static_cast<int>(result.blamed.size());
  for (VersionId id : result.changed_versions) {
    const Version* version = state_.FindVersion(id);
    report_.given_up += version != nullptr &&
                        version->state == VersionState::kLoadFailed &&
                        version->worker_ends > 0;
  }
  for (const JobChange& change : result.job_changes) {
    report_.grown += absl::StrContains(change.reason, "have more devices");
    if (change.to != JobState::kFailed) continue;
    if (absl::StrContains(change.reason, "after which it was to run")) {
      ++report_.after_others;
    }
    for (const char* limit : {"max_run_seconds", "start_before", "deadline"}) {
      if (absl::StrContains(change.reason, limit)) ++report_.at_limits;
    }
  }
}

}  // namespace gpupool::scheduler
