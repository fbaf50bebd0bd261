// Everything that the scheduler knows: devices, jobs that have not ended, and
// model versions. A plain value; Step() is what changes it.
//
// Thread-safety: none; it belongs to the control thread.
//
// Invariants (checked by scheduler/step/invariants.h):
//   1. A job has ranks exactly while it is live (STARTING, RUNNING,
//      CANCELLING): as many as it needs devices, each on another one. It is in
//      the `jobs` of those devices whose rank has not ended; one has not, or
//      saves and is not being cancelled.
//   2. A version names a device exactly while it may hold bytes there.
//   3. What was placed on a device never exceeds its limit.
//   4. The queue holds exactly the QUEUED jobs that may start, and so do its
//      shapes; the other QUEUED ones stand aside. What the queues count of
//      their jobs is what there is.
//   5. A device is reserved for a QUEUED job only.
//   6. under_load() are the versions that are so, elastic() the live jobs that
//      can run with several numbers of devices, saving() those with a rank that
//      saves.
//   7. Jobs and versions are where they want to be (device_choice.h), and an
//      exclusive job is alone on its devices.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "scheduler/state/array_limit.h"
#include "scheduler/state/device.h"
#include "scheduler/state/host.h"
#include "scheduler/state/id_tables.h"
#include "scheduler/state/job.h"
#include "scheduler/state/need_history.h"
#include "scheduler/state/order_policy.h"
#include "scheduler/state/queue_key.h"
#include "scheduler/state/queues.h"
#include "scheduler/state/reservations.h"
#include "scheduler/state/restart_cost.h"
#include "scheduler/state/service_history.h"
#include "scheduler/state/topology.h"
#include "scheduler/state/types.h"
#include "scheduler/state/version.h"
#include "scheduler/state/waiting_jobs.h"

namespace gpupool::scheduler {

class State {
 public:
  State() = default;
  State(State&&) noexcept = default;
  State& operator=(State&&) noexcept = default;
  // For looking ahead; costs as much as there is in it.
  State Clone() const { return *this; }

  // Adds a device that is not ready yet. Ids count from 0.
  // `node` is the number of its machine.
  DeviceId AddDevice(absl::string_view name, absl::string_view kind,
                     uint64_t full_bytes, double fraction = 1,
                     uint32_t node = 0);

  // Before the first job: it was drained before a restart.
  void RestoreDrain(DeviceId id, DeviceDrain drain);

  // Before the first job: how devices are connected, where that is known.
  void Connect(DeviceId a, DeviceId b, Link link) {
    topology_.Connect(a, b, link);
  }

  // What the machine has beside its devices. After its devices, before the
  // first job; no-op for a machine without devices.
  void SetHost(uint32_t node, const HostNeed& limit);

  // Before the first job.
  void SetPolicy(const QueuePolicy& policy);

  // Puts back what was on disk when the server started. A live job or a
  // placed version keeps its device, which must have been added; it counts as
  // there until WorkerReady or WorkerLost says otherwise.
  void RestoreJob(Job job);
  void RestoreVersion(Version version);
  // One that has not been cancelled; what began or ended meanwhile does so
  // with the first event.
  void RestoreReservation(TenantReservation reservation);

  // Before the first event: nothing starts until StartsHeld{false}.
  void HoldStarts() { starts_held_ = true; }

  // Before the first event, after all devices are there. Of a job that ran
  // before: by itself, after having run so long in all.
  void LearnRunTime(absl::Duration run) { history_.Add(run); }
  // One was submitted that needs so much.
  void LearnNeed(const JobNeed& need) { needs_.Add(need); }
  // What it took.
  void Remember(const TenantUsage::Past& past, absl::Time now) {
    usage_.Remember(past, now, policy_.usage_half_life);
  }

  // Drops an ended job. Late messages about it change nothing.
  void ForgetJob(JobId id);

  const SparseTable<JobId, Job>& jobs() const { return jobs_; }
  const absl::btree_map<VersionId, Version>& versions() const {
    return versions_;
  }
  const DenseTable<DeviceId, Device>& devices() const { return devices_; }
  // How many sites there are: kinds of devices of a machine.
  size_t sites() const { return sites_.size(); }
  const Topology& topology() const { return topology_; }
  const Reservations& reservations() const { return reservations_; }
  const std::vector<Machine>& machines() const { return machines_; }
  const absl::btree_set<QueueKey>& queue() const { return waiting_.all(); }
  // The same, by shape and with the first of each. With kFairShare the jobs of
  // a tenant are a group, otherwise all jobs of a queue are one.
  const WaitingJobs& waiting() const { return waiting_; }
  // Jobs that are QUEUED but may not start yet.
  const absl::btree_set<JobId>& aside() const { return aside_; }
  // Pairs of a job and one that waits for its end.
  const absl::btree_set<std::pair<JobId, JobId>>& dependents() const {
    return dependents_;
  }
  // Those of which a task has not ended, by id.
  const absl::btree_map<JobId, ArrayTasks>& arrays() const { return arrays_; }
  // Versions whose requests wait for too long.
  const absl::btree_set<VersionId>& under_load() const { return under_load_; }
  const absl::btree_set<DeviceId>& drained() const { return drained_; }
  // Live jobs that can run with other numbers of devices.
  const absl::btree_set<JobId>& elastic() const { return elastic_; }
  // Live jobs with a checkpoint on its way to the disk; many hold no device.
  const absl::btree_set<JobId>& saving() const { return saving_; }
  // Jobs for which devices are reserved.
  const absl::btree_set<JobId>& reserving() const { return reserving_; }
  const QueuePolicy& policy() const { return policy_; }
  const Queues& queues() const { return queues_; }
  const Queue& QueueOf(const Job& job) const {
    return queues_.at(job.queue).queue;
  }
  // As it waits.
  Shape ShapeOf(const Job& job) const;
  WaitingGroup GroupOf(const Job& job) const;
  // Jobs may have to give way, by the order of a queue, to a queue, or for what
  // a tenant is guaranteed.
  bool preempts() const { return preempts_; }
  const ServiceHistory& history() const { return history_; }
  const TenantUsage& usage() const { return usage_; }
  // With PlacementRule::kPack: of the jobs that were submitted.
  const NeedHistory& needs() const { return needs_; }
  // Of the last event.
  absl::Time now() const { return now_; }
  // Of stopping a job that resumes at once, until it is where it was: copying
  // or writing its checkpoint on the device, writing it behind that, restoring
  // it. As measured, or as the policy says at first.
  absl::Duration restart_cost() const {
    return restart_cost_.OrElse(policy_.restart_cost);
  }
  bool draining() const { return draining_; }
  bool stopping() const { return stopping_; }
  bool starts_held() const { return starts_held_; }
  // Null when unknown.
  const Job* FindJob(JobId id) const;
  const Version* FindVersion(VersionId id) const;
  const Device* FindDevice(DeviceId id) const;
  const Device* FindDevice(absl::string_view name) const;
  // True when the attempt is the live one of its job.
  bool IsLiveAttempt(AttemptRef attempt) const;
  // True when it has a rank on the device that has not ended.
  bool RunsOn(AttemptRef attempt, DeviceId device) const;
  // The device where an earlier attempt of the job has been told to stop and
  // has not done so yet; null when there is none.
  const Device* StrayDevice(JobId job) const;
  // A job whose wake_time has come, earliest first.
  std::optional<JobId> DueJob(absl::Time now) const;
  // A job that has come to a limit, earliest first; when the next one does.
  std::optional<JobId> JobAtLimit(absl::Time now) const;
  absl::Time NextLimit() const;
  // A device whose cool-down is over, earliest first.
  std::optional<DeviceId> CooledDevice(absl::Time now) const;
  // A running job whose standing may have risen, earliest first.
  std::optional<JobId> JobWithDueStanding(absl::Time now) const;
  // InfiniteFuture when none will by itself.
  absl::Time NextStandingChange() const;

 private:
  friend class StateEditor;  // scheduler/state/state_editor.h: for Step only
  State(const State&) = default;

  DenseTable<DeviceId, Device> devices_;
  SparseTable<JobId, Job> jobs_;
  absl::btree_map<VersionId, Version> versions_;
  std::vector<std::pair<uint32_t, std::string>> sites_;  // node and kind
  Topology topology_;
  Reservations reservations_;
  std::vector<Machine> machines_;
  WaitingJobs waiting_;
  absl::btree_set<JobId> reserving_;
  absl::btree_set<JobId> aside_;
  absl::btree_map<JobId, ArrayTasks> arrays_;
  absl::btree_set<VersionId> under_load_;
  absl::btree_set<DeviceId> drained_;
  absl::btree_set<JobId> elastic_;
  absl::btree_set<JobId> saving_;
  absl::btree_set<std::pair<JobId, JobId>> dependents_;
  // Of all devices.
  absl::btree_set<std::pair<AttemptRef, DeviceId>> strays_;
  absl::btree_set<std::pair<absl::Time, JobId>> wakes_;
  absl::btree_set<std::pair<absl::Time, JobId>> standing_changes_;
  absl::btree_set<std::pair<absl::Time, JobId>> limits_;
  absl::btree_set<std::pair<absl::Time, DeviceId>> cooling_;
  QueuePolicy policy_;
  Queues queues_;
  bool preempts_ = false;
  ServiceHistory history_;
  TenantUsage usage_;
  NeedHistory needs_;
  absl::Time now_ = absl::InfinitePast();
  RestartCost restart_cost_;
  absl::Time armed_timer_ = absl::InfiniteFuture();
  uint64_t last_load_ = 0;
  uint64_t last_request_ = 0;
  bool draining_ = false;
  bool stopping_ = false;
  bool starts_held_ = false;
};

}  // namespace gpupool::scheduler
