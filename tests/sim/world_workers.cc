// The workers: processes that train alone or in groups, and their spools.
#include <algorithm>
#include <utility>

#include "tests/sim/world.h"

namespace gpupool::scheduler {

void World::Connect(Worker& worker) {
  if (worker.connected || !worker.alive) return;
  worker.connected = true;
  ++worker.link;
  WorkerReady ready{.device = worker.device};
  for (const auto& [attempt, unused] : worker.running) {
    ready.running.push_back(attempt);
  }
  ready.left.assign(worker.saving.begin(), worker.saving.end());
  ready.loaded.assign(worker.loaded.begin(), worker.loaded.end());
  Enqueue([this, &worker, link = worker.link, ready] {
    worker.server_link = link;
    Apply(ready);
  });
  for (const auto& [sequence, event] : worker.spool) {
    SendReport(worker, sequence);
  }
}

void World::Disconnect(Worker& worker) {
  if (!worker.connected) return;
  worker.connected = false;
  ++worker.link;
  Deliver(WorkerLost{worker.device, "connection lost"});
  At(absl::Milliseconds(Below(3000)), [this, &worker] { Connect(worker); });
}

void World::Kill(Worker& worker, const WorkAtEnd& work) {
  if (!worker.alive) return;
  ++report_.lost_workers;
  worker.alive = false;
  ++worker.boot;
  const auto killed = std::exchange(worker.running, {});
  for (const auto& [attempt, unused] : killed) BreakGroup(attempt);
  report_.killed_saving += static_cast<int>(worker.saving.size());
  worker.saving.clear();
  worker.loaded.clear();
  const bool was_connected = worker.connected;
  worker.connected = false;
  ++worker.link;
  // The spool is on disk and stays.
  const auto fault =
      work.known() ? DeviceFault::kNone : static_cast<DeviceFault>(Below(3));
  if (was_connected) {
    Deliver(WorkerLost{worker.device, "killed", fault, work});
  }
  At(absl::Milliseconds(100 + Below(2000)), [this, &worker] {
    worker.alive = true;
    Connect(worker);
  });
}

void World::ToWorker(DeviceId device, std::function<void(Worker&)> run) {
  Worker& worker = workers_[device.value()];
  worker.last_to_worker = std::max(worker.last_to_worker, now_ + Latency());
  At(worker.last_to_worker - now_,
     [&worker, link = worker.server_link, run = std::move(run)] {
       if (worker.connected && worker.link == link) run(worker);
     });
}

void World::ToServer(Worker& worker, Event event) {
  if (!worker.connected) return;
  worker.last_to_server = std::max(worker.last_to_server, now_ + Latency());
  At(worker.last_to_server - now_, [this, &worker, link = worker.link, event] {
    if (worker.connected && worker.link == link) Deliver(event);
  });
}

void World::Report(Worker& worker, Event event) {
  worker.spool.emplace(++worker.last_sequence, std::move(event));
  SendReport(worker, worker.last_sequence);
}

void World::SendReport(Worker& worker, uint64_t sequence) {
  if (!worker.connected) return;
  worker.last_to_server = std::max(worker.last_to_server, now_ + Latency());
  const Event event = worker.spool.at(sequence);
  const auto take = [this, device = worker.device, sequence, event] {
    uint64_t& last = taken_[device];
    if (sequence <= last) return;
    last = sequence;
    Apply(event);
  };
  const auto acknowledge = [this, &worker, sequence] {
    // Sometimes the acknowledgement is lost, and the event is sent again.
    if (Chance(0.02)) return;
    worker.spool.erase(worker.spool.begin(),
                       worker.spool.upper_bound(sequence));
  };
  At(worker.last_to_server - now_,
     [this, &worker, link = worker.link, take, acknowledge, event] {
       if (!worker.connected || worker.link != link) return;
       Enqueue(take, acknowledge);
       if (!Chance(options_.doubled_message)) return;
       // This passes the check of sequences, so the scheduler must refuse it
       // itself.
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
  if (!started_.emplace(action.attempt, action.rank).second) {
    Fail("a rank of an attempt was started twice");
  }
  if (from > 0 && !on_disk_[action.attempt.job].contains(from)) {
    Fail("an attempt resumes from a checkpoint that is not on disk");
  }
  if (from < std::exchange(resumed_from_[action.attempt.job], from)) {
    Fail("an attempt resumes from before the one before it did");
  }
  worker.running[action.attempt] = {from, total_steps_[action.attempt.job],
                                    false, action.rank, action.ranks};
  if (action.ranks > 1) return JoinGroup(worker, action.attempt);
  Report(worker, AttemptStarted{worker.device, action.attempt});
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
  Report(worker, ProgressMade{device, attempt, run.step});
  if (run.step % 5 == 0 || run.step >= run.total) {
    ReportCheckpoint(worker, attempt, run.step);
  }
  if (run.step >= run.total) {
    return EndAttempt(worker, attempt, Outcome::kSucceeded);
  }
  At(absl::Milliseconds(1 + Below(200)),
     [this, device, boot, attempt] { Tick(device, boot, attempt); });
}

void World::ReportCheckpoint(Worker& worker, AttemptRef attempt,
                             uint64_t step) {
  on_disk_[attempt.job].insert(step);
  Report(worker, CheckpointSaved{worker.device, attempt, step});
}

void World::EndAttempt(Worker& worker, AttemptRef attempt, Outcome outcome) {
  const Attempt run = worker.running.at(attempt);
  worker.running.erase(attempt);
  if (outcome == Outcome::kStopped && run.rank == 0 && Chance(0.7)) {
    return SaveBehind(worker, attempt, run.step);
  }
  Report(worker, AttemptEnded{worker.device, attempt, outcome, "sim"});
}

void World::SaveBehind(Worker& worker, AttemptRef attempt, uint64_t step) {
  worker.saving.insert(attempt);
  Report(worker, AttemptEnded{worker.device, attempt, Outcome::kSaving, "sim"});
  At(absl::Milliseconds(Below(3000)),
     [this, &worker, boot = worker.boot, attempt, step] {
       if (worker.boot != boot) return;
       worker.saving.erase(attempt);
       AttemptEnded end{worker.device, attempt, Outcome::kStopped, "sim"};
       if (troubled_ && Chance(0.1)) {
         ++report_.full_disks;
         end.outcome = Outcome::kInterrupted;
         end.message = "the disk is full";
       } else {
         ++report_.saved_behind;
         ReportCheckpoint(worker, attempt, step);
       }
       Report(worker, end);
     });
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
  if (group.over) {  // a rank came and left before this one arrived
    return EndRankLater(worker.device, attempt, Outcome::kInterrupted);
  }
  group.ranks.emplace(mine.rank, worker.device);
  if (group.ranks.size() < mine.ranks) {
    // No rank waits for ever for ranks that do not come.
    At(absl::Seconds(3), [this, attempt, ranks = mine.ranks] {
      if (groups_[attempt].ranks.size() < ranks) BreakGroup(attempt);
    });
    return;
  }
  std::set<DeviceId> devices;
  for (const auto& [rank, device] : group.ranks) devices.insert(device);
  if (devices.size() != mine.ranks) Fail("two ranks on one device");
  Worker& lead = workers_[group.ranks.at(0).value()];
  Report(lead, AttemptStarted{lead.device, attempt});
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
  Report(lead, ProgressMade{lead.device, attempt, run.step});
  if (run.step % 5 == 0 || run.step >= run.total || stop) {
    ReportCheckpoint(lead, attempt, run.step);
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

}  // namespace gpupool::scheduler
