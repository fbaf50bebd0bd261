// One turn of the control thread: events are applied, rows and job events are
// collected, and everything is committed at once. Only then do the effects run
// that were put off until it is durable.
//
// Thread-safety: none; lives on the control thread for one turn.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gpupool/v1/job.pb.h"
#include "gpupool/v1/model.pb.h"
#include "scheduler/step/step.h"
#include "server/control/records/ledger.h"
#include "server/store/store.h"

namespace gpupool::server {

class Transaction {
 public:
  Transaction(Ledger* ledger, Store* store, absl::Time now);

  Ledger& ledger() { return *ledger_; }
  Store& store() { return *store_; }
  absl::Time now() const { return now_; }
  // Returns the batch, for datasets only. Jobs, versions and events go through
  // the functions below.
  WriteBatch& batch() { return batch_; }

  // Applies the event to the scheduler and mirrors its changes in the rows.
  // `error` is the job's own error when the event ends it. Returns false when
  // the event was stale.
  bool Apply(const scheduler::Event& event,
             const v1::JobError* error = nullptr);

  // Adds the array. Its tasks must be added as jobs.
  void AddArray(v1::JobArray array) {
    batch_.insert_arrays.push_back(std::move(array));
  }
  // Marks the row, which must be written.
  void TouchJob(uint64_t id) { touched_jobs_.insert(id); }
  void TouchVersion(uint64_t id) { touched_versions_.insert(id); }
  // Appends the event. Sets its sequence, job, attempt and, if it has none,
  // time.
  void AppendEvent(JobRow& row, v1::JobEvent event);

  // Creates a version with the next id. Its number is `version.version()`,
  // which no stored version of the model may have, or for 0 the next one.
  // Returns the id.
  uint64_t CreateVersion(v1::ModelVersion version);
  // Renews the plan of a job or version. The scheduler uses it from the next
  // placement on. No-op for jobs and versions that are gone.
  void RenewJobPlan(uint64_t id, const v1::Plan& plan);
  void RenewVersionPlan(uint64_t id, const v1::Plan& plan);

  // Limits placements on the device to this share of its memory. Returns false,
  // and changes nothing, when more is placed there.
  bool SetMemoryFraction(const scheduler::Device& device, double fraction);

  // Drains the device from now on, or resumes it without a value.
  void SetDrain(const scheduler::Device& device,
                const std::optional<v1::DeviceDrain>& drain);

  // Keeps the measurements of their device in place of earlier ones.
  void SetDeviceBench(const v1::DeviceBench& bench);

  // Makes readers see the placements anew, though no row changed.
  void MarkPlanChanged() { changed_plan_ = true; }

  // Runs `run` after the commit, in order.
  void AfterCommit(std::function<void()> run);

  // Writes everything in one transaction of the store.
  absl::Status Commit();

  // ------------------------------------------------------- after the commit
  std::vector<std::function<void()>>& answers() { return answers_; }
  const std::vector<scheduler::Action>& actions() const { return actions_; }
  // Returns the jobs that got events.
  const absl::btree_set<uint64_t>& jobs_with_events() const {
    return jobs_with_events_;
  }
  const absl::btree_set<uint64_t>& touched_versions() const {
    return touched_versions_;
  }
  // Returns the sequences of reports to acknowledge, by device.
  std::map<std::string, uint64_t>& acknowledgements() {
    return acknowledgements_;
  }
  const std::vector<absl::Duration>& queue_waits() const {
    return queue_waits_;
  }
  const std::vector<scheduler::PreemptionReason>& preemptions() const {
    return preemptions_;
  }
  // Times for which training paused for checkpoints, for which their copies
  // were then written, and that restoring jobs from them took.
  std::vector<absl::Duration>& saves() { return saves_; }
  std::vector<absl::Duration>& writes() { return writes_; }
  std::vector<absl::Duration>& restores() { return restores_; }
  // Notes how long the copy and the write of a checkpoint of the job took.
  void SetCheckpointTime(uint64_t job, absl::Duration took) {
    checkpoint_times_[job] = took;
  }
  // Returns that time of the job's last checkpoint in this turn; zero without
  // one.
  absl::Duration checkpoint_time(uint64_t job) const {
    const auto found = checkpoint_times_.find(job);
    return found == checkpoint_times_.end() ? absl::ZeroDuration()
                                            : found->second;
  }
  // Returns the devices on which something was placed or given back, and
  // others.
  const absl::btree_set<scheduler::DeviceId>& changed_devices() const {
    return changed_devices_;
  }
  uint64_t blamed_jobs() const { return blamed_jobs_; }
  const std::vector<scheduler::JobId>& submitted_jobs() const {
    return submitted_jobs_;
  }
  // Returns by how much first starts were later than predicted.
  const std::vector<absl::Duration>& prediction_errors() const {
    return prediction_errors_;
  }
  absl::Duration decision_time() const { return decision_time_; }
  // Returns true when jobs, versions or devices changed, and not only progress.
  bool changed_plan() const { return changed_plan_; }
  // Drops the rows of the jobs that ended.
  void ForgetEnded();

 private:
  void MirrorChange(const scheduler::JobChange& change,
                    const v1::JobError* error);
  void NoteFirstStart(v1::Job& job);
  void Mirror(const scheduler::Preemption& preemption);
  std::string PreemptionText(const scheduler::Preemption& preemption) const;
  void MirrorJob(uint64_t id);
  void ThinEvents(uint64_t job, uint64_t newest);
  void MirrorVersion(uint64_t id);
  void CountFailures(uint64_t id);
  void CountWorkerEnds(const scheduler::Version& version);
  void ForgetWorkerEnds(uint64_t id);
  void MirrorRanks(const scheduler::Job& job, v1::Job* row);
  void ForgetRanks(const v1::Job& job);
  absl::Status SettlePublished(const v1::Job& job, v1::ModelVersion* version);
  void Publish(uint64_t job_id);
  std::string DeviceName(scheduler::DeviceId id) const;

  Ledger* ledger_;
  Store* store_;
  absl::Time now_;
  WriteBatch batch_;
  std::vector<scheduler::Action> actions_;
  std::vector<std::function<void()>> answers_;
  std::map<std::string, uint64_t> acknowledgements_;
  absl::btree_set<uint64_t> touched_jobs_;
  absl::btree_set<uint64_t> touched_versions_;
  absl::btree_set<uint64_t> jobs_with_events_;
  absl::btree_set<uint64_t> ended_jobs_;
  std::vector<absl::Duration> queue_waits_;
  std::vector<scheduler::PreemptionReason> preemptions_;
  std::vector<absl::Duration> saves_;
  std::vector<absl::Duration> writes_;
  std::vector<absl::Duration> restores_;
  std::map<uint64_t, absl::Duration> checkpoint_times_;  // by job
  absl::btree_set<scheduler::DeviceId> changed_devices_;
  std::vector<scheduler::JobId> submitted_jobs_;
  std::vector<absl::Duration> prediction_errors_;
  uint64_t blamed_jobs_ = 0;
  absl::Duration decision_time_;
  bool changed_plan_ = false;
};

}  // namespace gpupool::server
