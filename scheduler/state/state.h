// Everything that the scheduler knows: devices, jobs that have not ended, and
// model versions. A plain value, which Step() changes.
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

struct DeviceOptions {
  double fraction = 1;  // fraction of its bytes that may be used
  uint32_t node = 0;    // number of its machine
};

class State {
 public:
  // Copies and moves are compiled once, in state.cc, since each is code for all
  // tables.
  State();
  State(State&&) noexcept;
  State& operator=(State&&) noexcept;
  ~State();
  // Returns a copy for a forecast. Cost is linear in the state's size.
  State Clone() const;

  // Adds a device that is not ready yet. Ids count from 0.
  DeviceId AddDevice(absl::string_view name, absl::string_view kind,
                     uint64_t full_bytes, const DeviceOptions& options = {});

  // Restores the drain of a device from before a restart. Call before the first
  // job.
  void RestoreDrain(DeviceId id, DeviceDrain drain);

  // Sets how two devices are connected, where that is known. Call before the
  // first job.
  void Connect(DeviceId a, DeviceId b, Link link) {
    topology_.Connect(a, b, link);
  }

  // Sets the host capacity of the machine. Call after its devices are added and
  // before the first job. No-op for a machine without devices.
  void SetHost(uint32_t node, const HostNeed& limit);

  // Sets the policy. Call before the first job.
  void SetPolicy(const QueuePolicy& policy);

  // Restores what was on disk when the server started. A live job or a placed
  // version keeps its device, which must have been added. It counts as there
  // until WorkerReady or WorkerLost says otherwise.
  void RestoreJob(Job job);
  void RestoreVersion(Version version);
  // Restores a reservation that has not been cancelled. A beginning or end that
  // has passed meanwhile takes effect with the first event.
  void RestoreReservation(TenantReservation reservation);

  // Holds all starts until StartsHeld{false}. Call before the first event.
  void HoldStarts() { starts_held_ = true; }

  // Learns the total run time of a past job that ended by itself. Call before
  // the first event and after all devices are added; the same holds for the
  // next two.
  void LearnRunTime(absl::Duration run) { history_.Add(run); }
  // Learns the need of a submitted job.
  void LearnNeed(const JobNeed& need) { needs_.Add(need); }
  // Adds the usage of a past job.
  void Remember(const TenantUsage::Past& past, absl::Time now) {
    usage_.Remember(past, now, policy_.usage_half_life);
  }

  // Drops an ended job. Later messages about it change nothing.
  void ForgetJob(JobId id);

  const SparseTable<JobId, Job>& jobs() const { return jobs_; }
  const absl::btree_map<VersionId, Version>& versions() const {
    return versions_;
  }
  const DenseTable<DeviceId, Device>& devices() const { return devices_; }
  // Returns the number of sites: kinds of devices, counted on each machine.
  size_t sites() const { return sites_.size(); }
  const Topology& topology() const { return topology_; }
  const Reservations& reservations() const { return reservations_; }
  const std::vector<Machine>& machines() const { return machines_; }
  const absl::btree_set<QueueKey>& queue() const { return waiting_.all(); }
  // Returns the queued jobs by shape, with the first of each. With kFairShare
  // each tenant's jobs are a group, otherwise each queue's jobs are.
  const WaitingJobs& waiting() const { return waiting_; }
  // Returns the jobs that are QUEUED but may not start yet.
  const absl::btree_set<JobId>& aside() const { return aside_; }
  // Returns pairs of a job, or an array, and a job that waits for its end.
  const absl::btree_set<std::pair<JobId, JobId>>& dependents() const {
    return dependents_;
  }
  // Returns, by id, the arrays with a task that has not ended.
  const absl::btree_map<JobId, ArrayTasks>& arrays() const { return arrays_; }
  // Returns the versions whose requests wait for too long.
  const absl::btree_set<VersionId>& under_load() const { return under_load_; }
  const absl::btree_set<DeviceId>& drained() const { return drained_; }
  // Returns the live jobs that can run with other numbers of devices.
  const absl::btree_set<JobId>& elastic() const { return elastic_; }
  // Returns the live jobs with a checkpoint on its way to the disk. Many of
  // them hold no device.
  const absl::btree_set<JobId>& saving() const { return saving_; }
  // Returns the jobs for which devices are reserved.
  const absl::btree_set<JobId>& reserving() const { return reserving_; }
  const QueuePolicy& policy() const { return policy_; }
  const Queues& queues() const { return queues_; }
  const Queue& QueueOf(const Job& job) const {
    return queues_.at(job.queue).queue;
  }
  // Returns the shape and the group under which the job waits.
  Shape ShapeOf(const Job& job) const;
  WaitingGroup GroupOf(const Job& job) const;
  // Returns whether jobs may have to give way: by the order of a queue, to a
  // queue of higher rank, or for a tenant's guarantee.
  bool preempts() const { return preempts_; }
  const ServiceHistory& history() const { return history_; }
  const TenantUsage& usage() const { return usage_; }
  // Returns the needs of submitted jobs. Filled with PlacementRule::kPack only.
  const NeedHistory& needs() const { return needs_; }
  // Returns the time of the last event.
  absl::Time now() const { return now_; }
  // Returns the cost of stopping a job that resumes at once, until it is where
  // it was: saving its checkpoint, writing it to disk and restoring it. Uses
  // measurements, or the policy's value while there are too few.
  absl::Duration restart_cost() const {
    return restart_cost_.OrElse(policy_.restart_cost);
  }
  bool draining() const { return draining_; }
  bool stopping() const { return stopping_; }
  bool starts_held() const { return starts_held_; }
  // Returns null when unknown.
  const Job* FindJob(JobId id) const;
  const Version* FindVersion(VersionId id) const;
  const Device* FindDevice(DeviceId id) const;
  const Device* FindDevice(absl::string_view name) const;
  // Returns whether the attempt is the live one of its job.
  bool IsLiveAttempt(AttemptRef attempt) const;
  // Returns whether the attempt has a rank on the device that has not ended.
  bool RunsOn(AttemptRef attempt, DeviceId device) const;
  // Returns the device where an earlier attempt of the job was told to stop but
  // has not stopped yet; null when there is none.
  const Device* StrayDevice(JobId job) const;
  // Returns the job with the earliest wake_time, if that has come.
  std::optional<JobId> DueJob(absl::Time now) const;
  // Returns the job with the earliest limit, if that has come.
  std::optional<JobId> JobAtLimit(absl::Time now) const;
  absl::Time NextLimit() const;
  // Returns the device with the earliest end of a cool-down, if that has come.
  std::optional<DeviceId> CooledDevice(absl::Time now) const;
  // Returns the running job whose standing must be computed again first, if
  // that time has come.
  std::optional<JobId> JobWithDueStanding(absl::Time now) const;
  // Returns InfiniteFuture when no standing changes by itself.
  absl::Time NextStandingChange() const;

 private:
  friend class StateEditor;  // scheduler/state/state_editor.h: for Step only
  State(const State&);

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
  // Stray attempts of all devices.
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
