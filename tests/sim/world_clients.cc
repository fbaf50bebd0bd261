// Clients, and the faults that the world must survive.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "scheduler/place/reservation_policy.h"
#include "tests/sim/world.h"

namespace gpupool::scheduler {
namespace {

constexpr size_t kMostJobs = 60;  // not ended; clients wait then

}  // namespace

std::string World::DrawQueue(uint32_t devices) {
  if (options_.policy.queues.empty()) return "";
  const size_t drawn = Below(options_.policy.queues.size() + 2);
  if (drawn == options_.policy.queues.size()) return "";
  if (drawn > options_.policy.queues.size()) return "of a former time";
  const Queue& queue = options_.policy.queues[drawn];
  const bool may_hold =
      devices <= queue.most.value_or(devices) &&
      (queue.devices.empty() || devices <= queue.devices.size());
  return may_hold ? queue.name : "";
}

std::string World::DrawDevice() {
  if (options_.pinned <= 0 || !Chance(options_.pinned)) return "";
  return state_.devices().at(DeviceId(Below(workers_.size()))).name;
}

void World::SubmitJobs() {
  if (!troubled_) return;
  At(absl::Milliseconds(
         Below(2 * absl::ToInt64Milliseconds(options_.between_jobs))),
     [this] { SubmitJobs(); });
  if (state_.jobs().size() >= kMostJobs) return;
  const JobId id(++last_job_);
  total_steps_[id] = 1 + Below(30);
  uint32_t devices = 1;
  if (workers_.size() > 1 && Chance(options_.gang)) {
    devices = 2 + static_cast<uint32_t>(Below(workers_.size() - 1));
    gangs_.insert(id);
  }
  JobSubmitted submitted{.id = id};
  submitted.tenant = absl::StrCat("team", Below(3), Chance(0.5) ? ".a" : ".b");
  submitted.priority = static_cast<int>(Below(5)) - 2;
  submitted.bytes = 1 + Below(options_.device_bytes);
  submitted.device_count = devices;
  submitted.max_attempts = static_cast<uint32_t>(1 + Below(6));
  submitted.first_backoff = absl::Milliseconds(Below(500));
  submitted.publish_on_success = Chance(0.3);
  submitted.queue_name = DrawQueue(devices);
  if (Chance(options_.elastic)) {
    for (uint32_t count = devices; count <= workers_.size(); ++count) {
      if (count == devices || Chance(0.5)) {
        submitted.device_counts.push_back(count);
      }
    }
  }
  if (devices == 1 && submitted.device_counts.empty() &&
      options_.policy.queues.empty()) {
    submitted.wanted_device = DrawDevice();
  }
  if (!submitted.wanted_device.empty()) pinned_.insert(id);
  submitted.demands.exclusive =
      options_.exclusive > 0 && Chance(options_.exclusive);
  if (submitted.demands.exclusive) exclusive_.insert(id);
  if (Chance(options_.waits)) {
    for (const auto& [array, tasks] : state_.arrays()) {
      if (!Chance(0.1)) continue;
      (Chance(0.5) ? submitted.after_ok : submitted.after_any).insert(array);
    }
    for (const auto& [other, job] : state_.jobs()) {
      if (IsEnded(job.state) || !Chance(0.1)) continue;
      if (submitted.after_ok.size() + submitted.after_any.size() > 3) break;
      (Chance(0.5) ? submitted.after_ok : submitted.after_any).insert(other);
    }
  }
  if (Chance(options_.limits)) {
    submitted.max_run = absl::Milliseconds(1 + Below(3000));
  }
  if (Chance(options_.limits)) {
    submitted.start_before = ServerNow() + absl::Milliseconds(Below(20000));
  }
  if (Chance(options_.limits)) {
    submitted.deadline = ServerNow() + absl::Milliseconds(Below(20000));
    submitted.expected_run = absl::Milliseconds(Below(5000));
  }
  submitted.held = Chance(0.05);
  submitted.untried = IsPoisonous(id) || Chance(0.3);
  if (Chance(options_.arrays)) return SubmitArray(submitted);
  Submit(submitted, Chance(0.15));
}

// Submits the job as several tasks. Its own id is the array's.
void World::SubmitArray(const JobSubmitted& job) {
  total_steps_.erase(job.id);
  gangs_.erase(job.id);
  array_ids_.insert(job.id);
  ArraySubmitted array;
  const size_t tasks = 2 + Below(6);
  const uint32_t at_once = static_cast<uint32_t>(Below(4));
  for (size_t i = 0; i < tasks; ++i) {
    JobSubmitted task = job;
    task.id = JobId(++last_job_);
    task.array = job.id;
    task.untried = task.untried || IsPoisonous(task.id);
    task.max_at_once = at_once;
    total_steps_[task.id] = 1 + Below(30);
    if (task.device_count > 1) gangs_.insert(task.id);
    array.tasks.push_back(std::move(task));
  }
  ++report_.arrays;
  SendArray(array, Chance(0.2));
}

void World::SendArray(const ArraySubmitted& array, bool cancel) {
  const JobId first = array.tasks.front().id;
  const JobId id = array.tasks.front().array;
  if (acknowledged_.contains(first)) return;
  Enqueue(
      [this, array, first] {
        if (known_.contains(first)) return;
        ArraySubmitted admitted;
        for (const JobSubmitted& task : array.tasks) {
          Know(task.id, JobState::kQueued);
          admitted.tasks.push_back(WithoutEnded(task));
        }
        Apply(admitted);
        for (const JobSubmitted& task : admitted.tasks) {
          if (task.untried) Rehearse(task.id);
        }
      },
      [this, array, first, id, cancel] {
        if (acknowledged_.contains(first)) return;
        for (const JobSubmitted& task : array.tasks) {
          acknowledged_.insert(task.id);
        }
        AskForArray(id);
        if (!cancel) return;
        At(absl::Milliseconds(Below(4000)), [this, array, id] {
          Enqueue(
              [this, id] {
                Apply(ArrayRequested{id, ArrayRequest::kCancel});
              },
              [this, array] {
                for (const JobSubmitted& task : array.tasks) {
                  cancelled_.insert(task.id);
                }
              });
        });
      });
  At(absl::Seconds(5), [this, array, cancel] { SendArray(array, cancel); });
}

void World::AskForArray(JobId id) {
  if (!Chance(options_.asked)) return;
  At(absl::Milliseconds(Below(4000)), [this, id] {
    if (Chance(0.5)) return Deliver(ArrayRequested{id, ArrayRequest::kRequeue});
    Deliver(ArrayRequested{id, ArrayRequest::kHold});
    At(absl::Milliseconds(Below(3000)), [this, id] {
      Deliver(ArrayRequested{id, ArrayRequest::kRelease});
    });
  });
}

// Leaves out jobs that have ended, like server/control/jobs/job_requests.
JobSubmitted World::WithoutEnded(JobSubmitted job) const {
  const auto ended = [this](JobId id) {
    if (array_ids_.contains(id)) return !state_.arrays().contains(id);
    const auto it = known_.find(id);
    return it == known_.end() || IsEnded(it->second);
  };
  absl::erase_if(job.after_ok, ended);
  absl::erase_if(job.after_any, ended);
  return job;
}

void World::Submit(const JobSubmitted& job, bool cancel) {
  if (acknowledged_.contains(job.id)) return;
  Enqueue(
      [this, job] {
        // The same request id gives the same job.
        if (known_.contains(job.id)) return;
        Know(job.id, JobState::kQueued);
        Apply(WithoutEnded(job));
        if (job.untried) Rehearse(job.id);
      },
      [this, job, cancel] {
        if (!acknowledged_.insert(job.id).second || !cancel) return;
        At(absl::Milliseconds(Below(4000)), [this, id = job.id] {
          Enqueue([this, id] { Apply(JobCancelRequested{id}); },
                  [this, id] { cancelled_.insert(id); });
        });
      });
  At(absl::Seconds(5), [this, job, cancel] { Submit(job, cancel); });
}

void World::Disturb() {
  if (!troubled_) return;
  Worker& worker = workers_[Below(workers_.size())];
  if (Chance(options_.lose_worker * 10)) Kill(worker);
  if (Chance(options_.break_connection)) Disconnect(worker);
  if (Chance(options_.restart_server)) RestartServer();
  if (Chance(options_.clock_jump)) JumpClock();
  if (Chance(options_.drain_and_restart)) {
    Deliver(DrainRequested{.stop = Chance(0.7)});
    At(absl::Milliseconds(Below(800)), [this] { RestartServer(); });
  }
  if (Chance(options_.drain_device)) DrainADevice();
  At(absl::Milliseconds(Below(400)), [this] { Disturb(); });
}

// Drains a device and resumes it after a while.
void World::DrainADevice() {
  const DeviceId device(Below(workers_.size()));
  Deliver(DeviceDrainSet{device, DeviceDrain{.lets_finish = Chance(0.3)}});
  At(absl::Milliseconds(Below(3000)), [this, device] {
    Deliver(DeviceDrainSet{device, std::nullopt});
  });
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

// Like server/control/devices/reservation_requests.
void World::ReserveDevices() {
  if (!troubled_) return;
  At(absl::Milliseconds(Below(400)), [this] { ReserveDevices(); });
  if (!Chance(options_.reserves)) return;
  if (Chance(0.3) && last_reservation_ > 0) {
    const ReservationId id(1 + Below(last_reservation_));
    return Deliver(ReservationCancelled{id});
  }
  ReservationNeed need{
      .tenant = absl::StrCat("team", Below(3), Chance(0.3) ? ".a" : ""),
      .devices = 1 + static_cast<uint32_t>(Below(workers_.size())),
      .start = absl::UnixEpoch() + absl::Milliseconds(Below(2000)),
      .end = absl::UnixEpoch() + absl::Milliseconds(2000 + Below(3000))};
  Enqueue([this, need]() mutable {
    const absl::Duration now =
        std::max(ServerNow(), state_.now()) - absl::UnixEpoch();
    need.start += now;
    need.end += now;
    const auto devices = ChooseReserved(state_, need);
    if (!devices.ok()) return;
    ++report_.reservations;
    const ReservationId id(++last_reservation_);
    Apply(ReservationMade{{.id = id,
                           .name = absl::StrCat("r", id.value()),
                           .tenant = need.tenant,
                           .devices = *devices,
                           .start = need.start,
                           .end = need.end}});
  });
}

void World::ReleaseAll() {
  std::vector<JobId> held;
  for (const auto& [id, job] : state_.jobs()) {
    if (job.held && !IsEnded(job.state)) held.push_back(id);
  }
  for (JobId id : held) Deliver(JobReleaseRequested{id});
  for (const Worker& worker : workers_) {
    Deliver(DeviceDrainSet{worker.device, std::nullopt});
  }
  if (!Quiet()) At(absl::Seconds(1), [this] { ReleaseAll(); });
}

void World::TouchVersions() {
  if (last_version_ > 0) {
    const VersionId id(1 + Below(last_version_));
    if (Chance(0.5)) {
      Deliver(VersionUnloadRequested{id});
    } else if (Chance(0.5)) {
      Deliver(VersionLoadRequested{id, DrawDevice()});
    } else if (Chance(0.7)) {
      Deliver(ServingLoadChanged{id, Chance(0.5)});
    } else {
      Enqueue([this, id] {
        const Version* version = state_.FindVersion(id);
        if (version != nullptr && version->state == VersionState::kUnloaded) {
          Apply(VersionDeleted{id});
        }
      });
    }
  }
  // Versions are unloaded in the end, so that every job can run.
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
