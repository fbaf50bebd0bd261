// The server: turns, commits and crashes.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/world.h"

namespace gpupool::scheduler {

void World::Enqueue(std::function<void()> work, std::function<void()> answer) {
  inbox_.emplace_back(std::move(work), std::move(answer));
  if (!in_turn_) BeginTurn();
}

void World::Deliver(const Event& event) {
  Enqueue([this, event] { Apply(event); });
}

// Takes the waiting events. The disk takes some time.
void World::BeginTurn() {
  in_turn_ = true;
  At(absl::ZeroDuration(), [this, boot = server_boot_] {
    if (boot != server_boot_) return;
    for (size_t left = std::min<size_t>(inbox_.size(), 16); left > 0; --left) {
      const auto [work, answer] = std::move(inbox_.front());
      inbox_.pop_front();
      work();
      if (answer != nullptr) turn_answers_.push_back(answer);
    }
    if (options_.answers_too_early) Answer();
    if (options_.acts_too_early) Act();
    const bool slow = Chance(options_.slow_commit);
    At(absl::Microseconds(slow ? Below(2000000) : 100 + Below(2000)),
       [this, boot] {
         if (boot == server_boot_) Commit();
       });
  });
}

void World::Commit() {
  ++report_.commits;
  disk_ = {.taken = taken_, .last_version = last_version_};
  for (const auto& [id, job] : state_.jobs()) disk_.jobs.push_back(job);
  for (DeviceId id : state_.drained()) {
    disk_.drains[id] = *state_.devices().at(id).drain;
  }
  for (const auto& [id, version] : state_.versions()) {
    disk_.versions.push_back(version);
  }
  for (const auto& [id, reservation] : state_.reservations().all()) {
    disk_.reservations.push_back(reservation);
  }
  turn_known_.clear();
  in_turn_ = false;
  Answer();
  Act();
  if (!inbox_.empty() && !in_turn_) BeginTurn();
}

void World::Answer() {
  for (const auto& answer : std::exchange(turn_answers_, {})) answer();
}

void World::Act() {
  for (const Action& action : std::exchange(turn_actions_, {})) {
    // The process may end between any two actions.
    if (troubled_ && Chance(options_.restart_server / 100)) {
      return RestartServer();
    }
    Perform(action);
  }
}

void World::Apply(const Event& event) {
  if (!report_.failure.empty()) return;
  ++report_.events;
  const StepResult result = Step(state_, event, ServerNow());
  if (options_.sabotage) options_.sabotage(state_, report_.events);
  Check(result);
  Count(result);
  for (const Action& action : result.actions) {
    if (const auto* create = std::get_if<CreateVersion>(&action)) {
      Publish(create->job);
    } else {
      turn_actions_.push_back(action);
    }
  }
  // Ended jobs leave the state after a while, as in the server.
  for (const JobChange& change : result.job_changes) {
    if (!IsEnded(change.to)) continue;
    At(absl::Milliseconds(Below(5000)),
       [this, id = change.job] { Enqueue([this, id] { Forget(id); }); });
  }
}

void World::Forget(JobId id) {
  const Job* job = state_.FindJob(id);
  // A restart may have lost the end of the job.
  if (job != nullptr && IsEnded(job->state)) state_.ForgetJob(id);
}

void World::SetTimerAt(absl::Time time) {
  timers_.insert(time);
  At(std::max(time - ServerNow(), absl::ZeroDuration()),
     [this, boot = server_boot_] {
       if (boot != server_boot_ || timers_.empty() ||
           *timers_.begin() > ServerNow()) {
         return;
       }
       timers_.erase(timers_.begin(), timers_.upper_bound(ServerNow()));
       Deliver(TimerFired{});
     });
}

// Moves the clock by up to ten seconds, forwards or backwards. Everything that
// waits for a time checks it again.
void World::JumpClock() {
  ++report_.clock_jumps;
  clock_offset_ += absl::Milliseconds(Below(20000)) - absl::Seconds(10);
  for (const absl::Time time : std::exchange(timers_, {})) SetTimerAt(time);
}

void World::Know(JobId job, JobState now) {
  const auto it = known_.find(job);
  turn_known_.emplace(
      job, it == known_.end() ? std::nullopt : std::optional(it->second));
  known_[job] = now;
}

void World::Perform(const Action& action) {
  if (const auto* start = std::get_if<StartJob>(&action)) {
    // A later event of the turn may have undone the action
    // (control/action_runner).
    if (!state_.RunsOn(start->attempt, start->device)) {
      return Deliver(
          AttemptEnded{start->device, start->attempt, Outcome::kStopped, ""});
    }
    const uint64_t from = state_.FindJob(start->attempt.job)->checkpoint_step;
    ToWorker(start->device, [this, action = *start, from](Worker& worker) {
      StartAttempt(worker, action, from);
    });
  } else if (const auto* stop = std::get_if<StopJob>(&action)) {
    ToWorker(stop->device, [this, stop = *stop](Worker& worker) {
      Stop(worker, stop.attempt, stop.reason);
    });
  } else if (const auto* load = std::get_if<LoadVersion>(&action)) {
    ToWorker(load->device, [this, load = *load](Worker& worker) {
      if (IsPoisonous(load.version))
        return Kill(worker, {.version = load.version});
      if (Chance(0.1)) {
        const absl::Status status = Chance(0.5)
                                        ? absl::UnavailableError("busy")
                                        : absl::DataLossError("damaged");
        ToServer(worker, VersionLoadFailed{load.version, load.device, load.load,
                                           status});
        return;
      }
      worker.loaded.insert(load.version);
      ToServer(worker, VersionLoaded{load.version, load.device, load.load});
    });
  } else if (const auto* rehearse = std::get_if<RehearseVersion>(&action)) {
    Rehearse(*rehearse);
  } else if (const auto* unload = std::get_if<UnloadVersion>(&action)) {
    ToWorker(unload->device, [this, unload = *unload](Worker& worker) {
      worker.loaded.erase(unload.version);
      ToServer(worker, VersionUnloaded{unload.version, unload.device});
    });
  } else if (const auto* drain = std::get_if<DrainVersion>(&action)) {
    At(Latency(), [this, id = drain->version, boot = server_boot_] {
      if (boot == server_boot_) Deliver(VersionDrained{id});
    });
  } else if (const auto* timer = std::get_if<SetTimer>(&action)) {
    SetTimerAt(timer->time);
  } else if (!std::holds_alternative<ForgetVersion>(action)) {
    ++report_.versions_ready;
  }
}

bool World::IsPoisonous(VersionId version) const {
  return version.value() % 7 == 0;
}

// Rehearsals find only some of the poisonous versions.
void World::Rehearse(const RehearseVersion& action) {
  ++report_.rehearsals;
  absl::Status status;
  if (Chance(0.1)) {
    status = absl::UnavailableError("busy");
  } else if (IsPoisonous(action.version) && Chance(0.3)) {
    status = absl::FailedPreconditionError("signal 6");
  }
  At(Latency(), [this, action, status, boot = server_boot_] {
    if (boot != server_boot_) return;
    Deliver(VersionRehearsed{action.version, action.load, status});
  });
}

// Finds every poisonous job.
void World::Rehearse(JobId job) {
  ++report_.tried_jobs;
  absl::Status status;
  if (IsPoisonous(job)) {
    status = absl::InvalidArgumentError("signal 6");
  } else if (Chance(0.1)) {
    status = absl::UnavailableError("busy");
  }
  At(Latency(), [this, job, status, boot = server_boot_] {
    if (boot == server_boot_) Deliver(JobRehearsed{job, status});
  });
}

void World::Publish(JobId job) {
  const VersionId id(++last_version_);
  Apply(VersionCreated{id, absl::StrCat("model", job.value() % 5), job.value(),
                       20 + Below(60)});
  VersionLoadRequested load{id};
  load.rehearse = job.value() % 2 == 0;
  Apply(load);
}

// Data on disk survives. Connections, timers and messages do not.
void World::RestartServer() {
  ++report_.restarts;
  ++server_boot_;
  if (in_turn_ || !inbox_.empty()) ++report_.lost_turns;
  restoring_ = true;
  in_turn_ = false;
  inbox_.clear();
  turn_actions_.clear();
  turn_answers_.clear();
  timers_.clear();
  for (const auto& [job, before] : std::exchange(turn_known_, {})) {
    if (before) {
      known_[job] = *before;
    } else {
      known_.erase(job);
    }
  }
  taken_ = disk_.taken;
  last_version_ = disk_.last_version;
  for (const JobId job : acknowledged_) {
    if (!known_.contains(job)) Fail("an acknowledged job is lost");
  }
  State fresh;
  fresh.SetPolicy(options_.policy);
  for (const auto& [id, device] : state_.devices()) {
    fresh.AddDevice(device.name, device.kind, device.limit_bytes);
  }
  for (const auto& [id, drain] : disk_.drains) fresh.RestoreDrain(id, drain);
  for (const TenantReservation& reservation : disk_.reservations) {
    fresh.RestoreReservation(reservation);
  }
  for (const Job& job : disk_.jobs) {
    if (IsEnded(job.state)) continue;
    Job copy = job;
    copy.passes = 0;
    copy.held_devices.clear();
    copy.stop_sent.reset();
    copy.gives_way_to.reset();
    copy.yields_to.reset();
    copy.may_grow_since = absl::InfiniteFuture();
    copy.reserved_devices.clear();
    copy.run_since = absl::InfiniteFuture();
    copy.standing_change = absl::InfiniteFuture();
    copy.attained = job.Attained(ServerNow());
    copy.wake_time = absl::InfiniteFuture();
    if (job.state == JobState::kBackingOff) {
      copy.wake_time = ServerNow();  // as in server/control/records/rows
    }
    copy.untried = copy.state == JobState::kQueued && copy.attempt == 0;
    if (copy.untried) Rehearse(copy.id);
    fresh.RestoreJob(std::move(copy));
  }
  for (const Version& version : disk_.versions) {
    Version copy = version;
    copy.load_sent = false;
    copy.rehearsal_sent = false;
    copy.under_load = false;
    copy.retry_time = absl::InfinitePast();
    fresh.RestoreVersion(std::move(copy));
  }
  state_ = std::move(fresh);
  SetTimerAt(ServerNow());
  for (Worker& worker : workers_) {
    worker.connected = false;
    ++worker.link;
    worker.server_link = 0;
    At(Latency(), [this, &worker] { Connect(worker); });
  }
}

}  // namespace gpupool::scheduler
