#include "tests/sim/world.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

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
  while (!pending_.empty() && report_.failure.empty()) {
    if (report_.events >= options_.max_events) troubled_ = false;
    if (report_.events > 10 * options_.max_events) Fail("never quiet");
    const Pending next = pending_.top();
    pending_.pop();
    now_ = next.time;
    next.run();
  }
  if (report_.failure.empty() && !Quiet()) Fail("jobs that never end");
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
    }
    if (job_state == JobState::kFailed) ++report_.failed;
    if (job_state == JobState::kCancelled) ++report_.cancelled;
  }
  return report_;
}

bool World::Quiet() const {
  return known_.size() == last_job_ &&
         std::all_of(known_.begin(), known_.end(),
                     [](const auto& entry) { return IsEnded(entry.second); });
}

// ---------------------------------------------------------------- the server

void World::Deliver(const Event& event) {
  if (!report_.failure.empty()) return;
  ++report_.events;
  const StepResult result = Step(state_, event, now_);
  if (options_.sabotage) options_.sabotage(state_, report_.events);
  Check(result);
  Count(result);
  for (const Action& action : result.actions) Perform(action);
  // Ended jobs leave the state after a while, as in the server.
  for (const JobChange& change : result.job_changes) {
    if (IsEnded(change.to) && Chance(0.5)) state_.ForgetJob(change.job);
  }
}

void World::Check(const StepResult& result) {
  if (result.stale) ++report_.stale;
  if (result.stale && !result.job_changes.empty() &&
      result.job_changes[0].to != JobState::kStarting) {
    Fail("a stale event changed a job");
  }
  for (const JobChange& change : result.job_changes) {
    auto [it, is_new] = known_.emplace(change.job, change.from);
    if (it->second != change.from)
      Fail(
          "a change does not start where the "
          "last one ended");
    if (absl::Status s = CheckChange(change); !s.ok()) {
      Fail(std::string(s.message()));
    }
    if (change.to == JobState::kRunning && change.from != JobState::kStarting) {
      ++report_.taken_back;
    }
    it->second = change.to;
  }
  bool all_heard = true;
  for (const Worker& worker : workers_) all_heard &= worker.connected;
  if (all_heard) restoring_ = false;
  if (absl::Status s = CheckInvariants(state_, restoring_); !s.ok()) {
    Fail(std::string(s.message()));
  }
}

void World::Perform(const Action& action) {
  if (const auto* start = std::get_if<StartJob>(&action)) {
    const uint64_t from = state_.jobs().at(start->attempt.job).checkpoint_step;
    ToWorker(start->device, [this, action = *start, from](Worker& worker) {
      StartAttempt(worker, action, from);
    });
  } else if (const auto* stop = std::get_if<StopJob>(&action)) {
    ToWorker(stop->device, [this, stop = *stop](Worker& worker) {
      Stop(worker, stop.attempt, stop.reason);
    });
  } else if (const auto* load = std::get_if<LoadVersion>(&action)) {
    ToWorker(load->device, [this, load = *load](Worker& worker) {
      if (Chance(0.1)) {
        const absl::Status status = Chance(0.5)
                                        ? absl::UnavailableError("busy")
                                        : absl::DataLossError("damaged");
        ToServer(
            worker,
            VersionLoadFailed{load.version, load.device, load.load, status},
            false);
        return;
      }
      worker.loaded.insert(load.version);
      ToServer(worker, VersionLoaded{load.version, load.device, load.load},
               false);
    });
  } else if (const auto* unload = std::get_if<UnloadVersion>(&action)) {
    ToWorker(unload->device, [this, unload = *unload](Worker& worker) {
      worker.loaded.erase(unload.version);
      ToServer(worker, VersionUnloaded{unload.version, unload.device}, false);
    });
  } else if (const auto* drain = std::get_if<DrainVersion>(&action)) {
    At(Latency(), [this, id = drain->version, boot = server_boot_] {
      if (boot == server_boot_) Deliver(VersionDrained{id});
    });
  } else if (const auto* timer = std::get_if<SetTimer>(&action)) {
    At(timer->time - now_, [this, boot = server_boot_] {
      if (boot == server_boot_) Deliver(TimerFired{});
    });
  } else if (const auto* create = std::get_if<CreateVersion>(&action)) {
    Publish(create->job);
  } else {
    ++report_.versions_ready;
  }
}

void World::Publish(JobId job) {
  const VersionId id(++last_version_);
  Deliver(VersionCreated{id, absl::StrCat("model", job.value() % 5),
                         job.value(), 20 + Below(60)});
  Deliver(VersionLoadRequested{id});
}

// What is on disk survives; connections, timers and messages do not.
void World::RestartServer() {
  ++report_.restarts;
  ++server_boot_;
  restoring_ = true;
  State fresh;
  fresh.SetPolicy(options_.policy);
  for (const auto& [id, device] : state_.devices()) {
    fresh.AddDevice(device.name, device.kind, device.limit_bytes);
  }
  for (const auto& [id, job] : state_.jobs()) {
    if (IsEnded(job.state)) continue;
    Job copy = job;
    copy.passes = 0;
    copy.held_devices.clear();
    copy.stop_sent.reset();
    copy.gives_way_to.reset();
    copy.reserved_devices.clear();
    copy.run_since = absl::InfiniteFuture();
    copy.standing_change = absl::InfiniteFuture();
    copy.attained = job.Attained(now_);
    copy.wake_time = absl::InfiniteFuture();
    if (job.state == JobState::kBackingOff) {
      copy.wake_time = std::max(now_, job.wake_time);
      Perform(SetTimer{copy.wake_time});
    }
    fresh.RestoreJob(std::move(copy));
  }
  for (const auto& [id, version] : state_.versions()) {
    Version copy = version;
    copy.load_sent = false;
    copy.retry_time = absl::InfinitePast();
    fresh.RestoreVersion(std::move(copy));
  }
  state_ = std::move(fresh);
  for (Worker& worker : workers_) {
    worker.connected = false;
    ++worker.link;
    At(Latency(), [this, &worker] { Connect(worker); });
  }
}

// --------------------------------------------------------------- the workers

void World::Connect(Worker& worker) {
  if (worker.connected || !worker.alive) return;
  worker.connected = true;
  ++worker.link;
  WorkerReady ready{.device = worker.device};
  for (const auto& [attempt, unused] : worker.running) {
    ready.running.push_back(attempt);
  }
  ready.loaded.assign(worker.loaded.begin(), worker.loaded.end());
  Deliver(ready);
  const std::vector<Event> spooled = worker.spool;
  worker.spool.clear();
  for (const Event& event : spooled) ToServer(worker, event, true);
}

void World::Disconnect(Worker& worker) {
  if (!worker.connected) return;
  worker.connected = false;
  ++worker.link;
  Deliver(WorkerLost{worker.device, "connection lost"});
  At(absl::Milliseconds(Below(3000)), [this, &worker] { Connect(worker); });
}

void World::Kill(Worker& worker) {
  if (!worker.alive) return;
  ++report_.lost_workers;
  worker.alive = false;
  ++worker.boot;
  const auto killed = std::exchange(worker.running, {});
  for (const auto& [attempt, unused] : killed) BreakGroup(attempt);
  worker.loaded.clear();
  const bool was_connected = worker.connected;
  worker.connected = false;
  ++worker.link;
  // The spool is on disk and stays.
  if (was_connected) Deliver(WorkerLost{worker.device, "killed"});
  At(absl::Milliseconds(100 + Below(2000)), [this, &worker] {
    worker.alive = true;
    Connect(worker);
  });
}

void World::ToWorker(DeviceId device, std::function<void(Worker&)> run) {
  Worker& worker = workers_[device.value()];
  worker.last_to_worker = std::max(worker.last_to_worker, now_ + Latency());
  At(worker.last_to_worker - now_,
     [&worker, link = worker.link, run = std::move(run)] {
       if (worker.connected && worker.link == link) run(worker);
     });
}

void World::ToServer(Worker& worker, Event event, bool durable) {
  if (durable) worker.spool.push_back(event);
  if (!worker.connected) return;
  worker.last_to_server = std::max(worker.last_to_server, now_ + Latency());
  At(worker.last_to_server - now_,
     [this, &worker, link = worker.link, durable, event] {
       if (!worker.connected || worker.link != link) return;
       Deliver(event);
       // The acknowledgement; sometimes it is lost and the report comes again.
       if (durable && !worker.spool.empty() && !Chance(0.02)) {
         worker.spool.erase(worker.spool.begin());
       }
       if (!Chance(options_.doubled_message)) return;
       At(absl::Milliseconds(Below(5000)), [this, event] { Deliver(event); });
     });
}

void World::StartAttempt(Worker& worker, const StartJob& action,
                         uint64_t from) {
  for (const auto& [attempt, unused] : worker.running) {
    if (attempt.job == action.attempt.job && attempt < action.attempt) {
      Fail("two attempts of one job on one worker");
    }
  }
  worker.running[action.attempt] = {from, total_steps_[action.attempt.job],
                                    false, action.rank, action.ranks};
  if (action.ranks > 1) return JoinGroup(worker, action.attempt);
  ToServer(worker, AttemptStarted{worker.device, action.attempt}, true);
  At(Latency(), [this, device = worker.device, boot = worker.boot,
                 attempt = action.attempt] { Tick(device, boot, attempt); });
}

void World::Tick(DeviceId device, uint64_t boot, AttemptRef attempt) {
  Worker& worker = workers_[device.value()];
  auto it = worker.running.find(attempt);
  if (worker.boot != boot || it == worker.running.end()) return;
  Attempt& run = it->second;
  if (run.stop) return EndAttempt(worker, attempt, Outcome::kStopped);
  if (troubled_ && Chance(0.01)) {
    return EndAttempt(worker, attempt, Outcome::kInterrupted);
  }
  if (Chance(0.003)) return EndAttempt(worker, attempt, Outcome::kFailed);
  ++run.step;
  ToServer(worker, ProgressMade{device, attempt, run.step}, true);
  if (run.step % 5 == 0 || run.step >= run.total) {
    ToServer(worker, CheckpointSaved{device, attempt, run.step}, true);
  }
  if (run.step >= run.total) {
    return EndAttempt(worker, attempt, Outcome::kSucceeded);
  }
  At(absl::Milliseconds(1 + Below(200)),
     [this, device, boot, attempt] { Tick(device, boot, attempt); });
}

void World::EndAttempt(Worker& worker, AttemptRef attempt, Outcome outcome) {
  worker.running.erase(attempt);
  ToServer(worker, AttemptEnded{worker.device, attempt, outcome, "sim"}, true);
}

void World::Stop(Worker& worker, AttemptRef attempt, StopReason reason) {
  auto it = worker.running.find(attempt);
  if (it == worker.running.end()) return;
  it->second.stop = true;
  if (it->second.ranks == 1 || reason != StopReason::kCancelled) return;
  EndAttempt(worker, attempt, Outcome::kStopped);
  BreakGroup(attempt);
}

// ---------------------------------------------------- attempts of many ranks

void World::JoinGroup(Worker& worker, AttemptRef attempt) {
  const Attempt& mine = worker.running.at(attempt);
  Group& group = groups_[attempt];
  if (group.over) {  // a rank came and went before this one was there
    return EndRankLater(worker.device, attempt, Outcome::kInterrupted);
  }
  if (!group.ranks.emplace(mine.rank, worker.device).second) {
    return Fail("a rank was started twice");
  }
  if (group.ranks.size() < mine.ranks) {
    // Nobody waits for ever for those that do not come.
    At(absl::Seconds(3), [this, attempt, ranks = mine.ranks] {
      if (groups_[attempt].ranks.size() < ranks) BreakGroup(attempt);
    });
    return;
  }
  std::set<DeviceId> devices;
  for (const auto& [rank, device] : group.ranks) devices.insert(device);
  if (devices.size() != mine.ranks) Fail("two ranks on one device");
  Worker& lead = workers_[group.ranks.at(0).value()];
  ToServer(lead, AttemptStarted{lead.device, attempt}, true);
  At(Latency(), [this, attempt] { GroupTick(attempt); });
}

void World::GroupTick(AttemptRef attempt) {
  Group& group = groups_[attempt];
  if (group.over) return;
  Worker& lead = workers_[group.ranks.at(0).value()];
  Attempt& run = lead.running.at(attempt);
  bool stop = false;
  for (const auto& [rank, device] : group.ranks) {
    stop |= workers_[device.value()].running.at(attempt).stop;
  }
  if (troubled_ && Chance(0.02)) {
    Worker& any = workers_[group.ranks.at(Below(run.ranks)).value()];
    EndAttempt(any, attempt,
               Chance(0.2) ? Outcome::kFailed : Outcome::kInterrupted);
    return BreakGroup(attempt);
  }
  ++run.step;
  ToServer(lead, ProgressMade{lead.device, attempt, run.step}, true);
  if (run.step % 5 == 0 || run.step >= run.total || stop) {
    ToServer(lead, CheckpointSaved{lead.device, attempt, run.step}, true);
  }
  if (run.step >= run.total) return EndGroup(attempt, Outcome::kSucceeded);
  if (stop) return EndGroup(attempt, Outcome::kStopped);
  At(absl::Milliseconds(1 + Below(200)),
     [this, attempt] { GroupTick(attempt); });
}

void World::EndGroup(AttemptRef attempt, Outcome outcome) {
  Group& group = groups_[attempt];
  group.over = true;
  for (const auto& [rank, device] : group.ranks) {
    EndRankLater(device, attempt, outcome);
  }
}

void World::BreakGroup(AttemptRef attempt) {
  Group& group = groups_[attempt];
  if (group.over) return;
  group.over = true;
  for (const auto& [rank, device] : group.ranks) {
    EndRankLater(device, attempt, Outcome::kInterrupted);
  }
}

void World::EndRankLater(DeviceId device, AttemptRef attempt, Outcome outcome) {
  Worker& worker = workers_[device.value()];
  At(absl::Milliseconds(Below(500)),
     [this, &worker, boot = worker.boot, attempt, outcome] {
       if (worker.boot != boot || !worker.running.contains(attempt)) return;
       EndAttempt(worker, attempt, outcome);
     });
}

// ------------------------------------------------------- clients and trouble

void World::SubmitJobs() {
  if (!troubled_) return;
  const JobId id(++last_job_);
  total_steps_[id] = 1 + Below(30);
  known_[id] = JobState::kQueued;
  uint32_t devices = 1;
  if (workers_.size() > 1 && Chance(options_.gang)) {
    devices = 2 + static_cast<uint32_t>(Below(workers_.size() - 1));
    gangs_.insert(id);
  }
  JobSubmitted submitted{
      .job = id,
      .priority = static_cast<int>(Below(5)) - 2,
      .bytes = 1 + Below(options_.device_bytes),
      .device_count = devices,
      .max_attempts = static_cast<uint32_t>(1 + Below(6)),
      .first_backoff = absl::Milliseconds(Below(500)),
      .publish_on_success = Chance(0.3),
  };
  if (Chance(options_.waits)) {
    for (const auto& [other, job] : state_.jobs()) {
      if (IsEnded(job.state) || !Chance(0.1)) continue;
      (Chance(0.5) ? submitted.after_ok : submitted.after_any).push_back(other);
    }
  }
  if (Chance(options_.limits)) {
    submitted.max_run = absl::Milliseconds(1 + Below(3000));
  }
  if (Chance(options_.limits)) {
    submitted.start_before = now_ + absl::Milliseconds(Below(20000));
  }
  if (Chance(options_.limits)) {
    submitted.deadline = now_ + absl::Milliseconds(Below(20000));
    submitted.expected_run = absl::Milliseconds(Below(5000));
  }
  submitted.held = Chance(0.05);
  Deliver(submitted);
  if (Chance(0.15)) {
    At(absl::Milliseconds(Below(4000)),
       [this, id] { Deliver(JobCancelRequested{id}); });
  }
  At(absl::Milliseconds(Below(600)), [this] { SubmitJobs(); });
}

void World::Disturb() {
  if (!troubled_) return;
  Worker& worker = workers_[Below(workers_.size())];
  if (Chance(options_.lose_worker * 10)) Kill(worker);
  if (Chance(options_.break_connection)) Disconnect(worker);
  if (Chance(options_.restart_server)) RestartServer();
  if (Chance(options_.drain_and_restart)) {
    Deliver(DrainRequested{.stop = Chance(0.7)});
    At(absl::Milliseconds(Below(800)), [this] { RestartServer(); });
  }
  At(absl::Milliseconds(Below(400)), [this] { Disturb(); });
}

void World::Count(const StepResult& result) {
  report_.preemptions += static_cast<int>(result.preemptions.size());
  for (const JobChange& change : result.job_changes) {
    if (change.to != JobState::kFailed) continue;
    if (absl::StrContains(change.reason, "after which it was to run")) {
      ++report_.after_others;
    }
    for (const char* limit : {"max_run_seconds", "start_before", "deadline"}) {
      if (absl::StrContains(change.reason, limit)) ++report_.at_limits;
    }
  }
}

void World::AskForJobs() {
  if (!troubled_) return ReleaseAll();
  if (!state_.jobs().empty() && Chance(options_.asked)) {
    auto it = state_.jobs().begin();
    std::advance(it, Below(state_.jobs().size()));
    const JobId id = it->first;
    if (Chance(0.3)) {
      ++report_.held;
      Deliver(JobHoldRequested{id});
      At(absl::Milliseconds(Below(3000)),
         [this, id] { Deliver(JobReleaseRequested{id}); });
    } else if (Chance(0.5)) {
      ++report_.requeued;
      Deliver(JobRequeueRequested{id});
    } else {
      Deliver(JobReleaseRequested{id});
    }
  }
  At(absl::Milliseconds(Below(400)), [this] { AskForJobs(); });
}

void World::ReleaseAll() {
  std::vector<JobId> held;
  for (const auto& [id, job] : state_.jobs()) {
    if (job.held && !IsEnded(job.state)) held.push_back(id);
  }
  for (JobId id : held) Deliver(JobReleaseRequested{id});
  if (!Quiet()) At(absl::Seconds(1), [this] { ReleaseAll(); });
}

void World::TouchVersions() {
  if (last_version_ > 0) {
    const VersionId id(1 + Below(last_version_));
    if (Chance(0.5)) {
      Deliver(VersionUnloadRequested{id});
    } else if (Chance(0.5)) {
      Deliver(VersionLoadRequested{id});
    } else {
      const Version* version = state_.FindVersion(id);
      if (version != nullptr && version->state == VersionState::kUnloaded) {
        Deliver(VersionDeleted{id});
      }
    }
  }
  // Versions make room in the end, so that every job can run.
  if (!troubled_) {
    std::vector<VersionId> wanted;
    for (const auto& [id, version] : state_.versions()) {
      if (version.state != VersionState::kUnloaded) wanted.push_back(id);
    }
    for (VersionId id : wanted) Deliver(VersionUnloadRequested{id});
    if (Quiet()) return;
  }
  At(absl::Milliseconds(Below(1000)), [this] { TouchVersions(); });
}

}  // namespace gpupool::scheduler
