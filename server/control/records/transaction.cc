#include "server/control/records/transaction.h"

#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/status_macros.h"
#include "scheduler/yield/preemption_reasons.h"
#include "scheduler/yield/serving_policy.h"
#include "server/control/records/event_thinning.h"
#include "server/control/records/rows.h"
#include "server/control/records/taken_names.h"
#include "server/control/records/tenant_use.h"

namespace gpupool::server {

using scheduler::JobId;
using scheduler::VersionId;

Transaction::Transaction(Ledger* ledger, Store* store, absl::Time now)
    : ledger_(ledger), store_(store), now_(now) {}

bool Transaction::Apply(const scheduler::Event& event,
                        const v1::JobError* error) {
  const absl::Time begin = absl::Now();
  // The scheduler's state and the rows change at once, the store only with the
  // commit. A turn that fails to commit therefore ends the process.
  scheduler::StepResult result = scheduler::Step(ledger_->state, event, now_);
  decision_time_ += absl::Now() - begin;
  if (const auto* submitted = std::get_if<scheduler::JobSubmitted>(&event)) {
    submitted_jobs_.push_back(submitted->id);
  }
  if (const auto* array = std::get_if<scheduler::ArraySubmitted>(&event)) {
    for (const auto& task : array->tasks) submitted_jobs_.push_back(task.id);
  }
  for (const auto& change : result.job_changes) MirrorChange(change, error);
  for (const auto& preemption : result.preemptions) Mirror(preemption);
  blamed_jobs_ += result.blamed.size();
  changed_devices_.insert(result.changed_devices.begin(),
                          result.changed_devices.end());
  for (JobId id : result.changed_jobs) MirrorJob(id.value());
  for (VersionId id : result.changed_versions) MirrorVersion(id.value());
  changed_plan_ = changed_plan_ || !result.changed_jobs.empty() ||
                  !result.changed_versions.empty() ||
                  !result.changed_devices.empty();
  // CreateVersion is no action for a worker: it becomes a row of this turn.
  for (scheduler::Action& action : result.actions) {
    if (const auto* create = std::get_if<scheduler::CreateVersion>(&action)) {
      Publish(create->job.value());
    } else {
      actions_.push_back(std::move(action));
    }
  }
  return !result.stale;
}

// Mirrors a change of a job's state in its row, its counters and its events.
void Transaction::MirrorChange(const scheduler::JobChange& change,
                               const v1::JobError* error) {
  JobRow* row = ledger_->FindJob(change.job.value());
  if (row == nullptr) return;
  v1::Job& job = row->job;
  const auto from = static_cast<v1::JobState>(change.from);
  const auto to = static_cast<v1::JobState>(change.to);
  job.set_state(to);
  job.set_attempt(change.attempt);
  --ledger_->job_counts[from];
  ++ledger_->job_counts[to];
  // Each start ends one wait. The prediction was made for the first start only.
  if (to == v1::STARTING) {
    queue_waits_.push_back(now_ - row->queued_since);
    if (!job.has_start_time()) NoteFirstStart(job);
  }
  if (to == v1::QUEUED) row->queued_since = now_;
  if (to == v1::FAILED) {
    // With several ranks the last one to end may have another message.
    const bool is_reason = error != nullptr && !error->message().empty() &&
                           absl::StrContains(change.reason, error->message());
    *job.mutable_error() =
        is_reason ? *error : ErrorOf(change.reason, job.progress().step());
  }
  // The ends of ranks belong to the attempt that is now over.
  if (scheduler::IsLive(change.from) && !scheduler::IsLive(change.to)) {
    ForgetRanks(job);
  }
  if (scheduler::IsEnded(change.to)) {
    *job.mutable_end_time() = ToTimestamp(now_);
    ended_jobs_.insert(job.id());
  }
  v1::JobEvent event;
  v1::StateChange& state_change = *event.mutable_state_change();
  state_change.set_from(from);
  state_change.set_to(to);
  state_change.set_reason(change.reason);
  if (to == v1::FAILED) *state_change.mutable_error() = job.error();
  AppendEvent(*row, std::move(event));
}

void Transaction::NoteFirstStart(v1::Job& job) {
  *job.mutable_start_time() = ToTimestamp(now_);
  if (!job.has_predicted_start_time()) return;
  prediction_errors_.push_back(now_ -
                               FromTimestamp(job.predicted_start_time()));
}

// Counts the preemption and writes it into the job's log.
void Transaction::Mirror(const scheduler::Preemption& preemption) {
  preemptions_.push_back(preemption.reason);
  JobRow* row = ledger_->FindJob(preemption.job.value());
  if (row == nullptr) return;
  v1::JobEvent event;
  v1::LogLine& log = *event.mutable_log();
  log.set_severity(v1::LogLine::INFO);
  log.set_text(absl::StrCat(PreemptionText(preemption),
                            ": checkpoints and frees its devices"));
  AppendEvent(*row, std::move(event));
}

std::string Transaction::PreemptionText(
    const scheduler::Preemption& preemption) const {
  if (preemption.gives_way_to) {
    return absl::StrCat("preempted by job ", preemption.gives_way_to->value(),
                        ", which ", scheduler::RowOf(preemption.reason).other);
  }
  if (preemption.reason == scheduler::PreemptionReason::kDrain) {
    return "its device is drained";
  }
  if (preemption.reserved_device) {
    const scheduler::State& state = ledger_->state;
    const scheduler::DeviceId device = *preemption.reserved_device;
    const auto* reservation = state.reservations().At(device, state.now());
    if (reservation == nullptr) return "preempted by a reservation";
    return absl::StrCat(
        "device ", ReservedText(DeviceName(device), *reservation, state.now()));
  }
  const scheduler::Version* version =
      preemption.yields_to ? ledger_->state.FindVersion(*preemption.yields_to)
                           : nullptr;
  if (version == nullptr) return "preempted";
  const JobRow* const row = ledger_->FindJob(preemption.job.value());
  return absl::StrCat("preempted by ",
                      ModelTextFor(*version, row->job.spec().tenant()),
                      version->under_load ? ", which is under load"
                                          : ", which needs its memory");
}

// Mirrors what else the scheduler has changed of the job.
void Transaction::MirrorJob(uint64_t id) {
  JobRow* row = ledger_->FindJob(id);
  const scheduler::Job* job = ledger_->state.FindJob(JobId(id));
  if (row == nullptr || job == nullptr) return;
  MirrorRanks(*job, &row->job);
  row->job.set_held(job->held && !scheduler::IsEnded(job->state));
  row->job.clear_faulted_devices();
  for (scheduler::DeviceId device : job->faults) {
    row->job.add_faulted_devices(DeviceName(device));
  }
  CountFailures(id);
  TouchJob(id);
}

// Stores the ends of ranks as counters, since the public row has no field.
void Transaction::MirrorRanks(const scheduler::Job& job, v1::Job* row) {
  if (job.ranks.empty()) return;
  row->set_device(DeviceName(job.ranks.front().device));
  row->clear_devices();
  for (size_t i = 0; i < job.ranks.size(); ++i) {
    const scheduler::Rank& rank = job.ranks[i];
    row->add_devices(DeviceName(rank.device));
    if (!rank.end) continue;
    batch_.set_counters[RankCounter(row->id(), i)] =
        static_cast<uint64_t>(*rank.end);
  }
}

void Transaction::ForgetRanks(const v1::Job& job) {
  const uint32_t ranks = MostDevices(job.spec());
  for (size_t i = 0; i < ranks; ++i) {
    const std::string name = RankCounter(job.id(), i);
    batch_.set_counters.erase(name);
    batch_.delete_counters.push_back(name);
  }
}

// Stores the count of failures as a counter, since the public row has no field.
void Transaction::CountFailures(uint64_t id) {
  const scheduler::Job& job = *ledger_->state.FindJob(JobId(id));
  const std::string name = absl::StrCat("failures/", id);
  if (scheduler::IsEnded(job.state)) {
    batch_.set_counters.erase(name);
    batch_.delete_counters.push_back(name);
  } else if (job.attempt > 0) {
    batch_.set_counters[name] = job.failures;
  }
}

// Mirrors the version; one that the scheduler has dropped is deleted.
void Transaction::MirrorVersion(uint64_t id) {
  const scheduler::Version* version = ledger_->state.FindVersion(VersionId(id));
  if (version == nullptr) {
    ledger_->RemoveVersion(id);
    ForgetWorkerEnds(id);
    touched_versions_.insert(id);
    return;
  }
  v1::ModelVersion* row = ledger_->FindVersion(id);
  if (row == nullptr) return;
  row->set_state(static_cast<v1::VersionState>(version->state));
  row->set_error(version->error);
  row->set_device(version->device ? DeviceName(*version->device) : "");
  row->set_wanted_device(version->wanted_device);
  CountWorkerEnds(*version);
  TouchVersion(id);
}

// Stores the ends of workers as counters, since the public row has no field.
void Transaction::CountWorkerEnds(const scheduler::Version& version) {
  // Most versions never ended a worker and have no counters.
  if (version.last_worker_end == absl::InfinitePast()) return;
  const uint64_t id = version.id.value();
  if (version.worker_ends == 0) return ForgetWorkerEnds(id);
  batch_.set_counters[WorkerEndsCounter(id)] = version.worker_ends;
  batch_.set_counters[LastWorkerEndCounter(id)] =
      static_cast<uint64_t>(absl::ToUnixSeconds(version.last_worker_end));
}

void Transaction::ForgetWorkerEnds(uint64_t id) {
  for (const std::string& name :
       {WorkerEndsCounter(id), LastWorkerEndCounter(id)}) {
    batch_.set_counters.erase(name);
    batch_.delete_counters.push_back(name);
  }
}

void Transaction::AppendEvent(JobRow& row, v1::JobEvent event) {
  // Sequences only rise, since watchers continue after the last one that they
  // saw.
  event.set_sequence(row.next_sequence++);
  event.set_job_id(row.job.id());
  event.set_attempt(row.job.attempt());
  if (!event.has_time()) *event.mutable_time() = ToTimestamp(now_);
  jobs_with_events_.insert(row.job.id());
  TouchJob(row.job.id());
  ThinEvents(row.job.id(), event.sequence());
  batch_.append_events.push_back(std::move(event));
}

// Keeps changes of state: the history of a job stays complete.
void Transaction::ThinEvents(uint64_t job, uint64_t newest) {
  for (uint64_t sequence : EventsToDrop(newest)) {
    const auto found = store_->ReadEvents(job, sequence - 1, 1);
    if (!found.ok() || found->empty()) continue;
    const v1::JobEvent& event = found->front();
    if (event.sequence() != sequence || event.has_state_change()) continue;
    batch_.thin_events.emplace_back(job, sequence);
  }
}

uint64_t Transaction::CreateVersion(v1::ModelVersion version) {
  version.set_id(store_->AllocateId(IdKind::kVersion));
  if (version.version() == 0) {
    version.set_version(store_->AllocateVersion(version.model()));
  } else {
    // The number comes from a repository. Later numbers that are allocated must
    // be above it.
    store_->RaiseVersion(version.model(), version.version());
  }
  *version.mutable_create_time() = ToTimestamp(now_);
  const v1::ModelVersion& row = ledger_->AddVersion(std::move(version));
  const uint64_t id = row.id();
  Apply(ToEvent(row));
  return id;
}

void Transaction::RenewJobPlan(uint64_t id, const v1::Plan& plan) {
  JobRow* row = ledger_->FindJob(id);
  const scheduler::Job* job = ledger_->state.FindJob(JobId(id));
  if (row == nullptr || job == nullptr) return;
  const uint64_t bytes = plan.training().peak();
  *row->job.mutable_plan() = plan;
  // A live attempt keeps the bytes of its old plan.
  if (!scheduler::IsLive(job->state)) {
    row->job.mutable_memory()->set_planned_peak_bytes(bytes);
  }
  TouchJob(id);
  Apply(scheduler::JobPlanned{JobId(id), bytes});
}

void Transaction::RenewVersionPlan(uint64_t id, const v1::Plan& plan) {
  v1::ModelVersion* row = ledger_->FindVersion(id);
  if (row == nullptr) return;
  *row->mutable_plan() = plan;
  row->mutable_plan()->clear_training();
  TouchVersion(id);
  Apply(scheduler::VersionPlanned{VersionId(id), plan.inference().peak()});
}

bool Transaction::SetMemoryFraction(const scheduler::Device& device,
                                    double fraction) {
  if (!Apply(scheduler::MemoryFractionSet{device.id, fraction})) return false;
  batch_.set_memory_fractions[device.name] = fraction;
  return true;
}

void Transaction::SetDrain(const scheduler::Device& device,
                           const std::optional<v1::DeviceDrain>& drain) {
  scheduler::DeviceDrainSet event{device.id, std::nullopt};
  if (drain) event.drain = FromProto(*drain);
  if (Apply(event)) batch_.set_drains[device.name] = drain;
}

void Transaction::SetDeviceBench(const v1::DeviceBench& bench) {
  batch_.set_device_benches[bench.device()] = bench;
}

// Gives the version of a job its tenant. A name that was free when the job was
// submitted may be another's by now. If everybody has it since then, the job's
// tenant does not give its result away.
absl::Status Transaction::SettlePublished(const v1::Job& job,
                                          v1::ModelVersion* version) {
  RETURN_IF_ERROR(ledger_->SettleTenant(version));
  const std::vector<uint64_t> present = ledger_->VersionsOf(version->model());
  if (!ledger_->keeps_tenants_apart || present.empty() ||
      !version->tenant().empty() ||
      FromTimestamp(ledger_->FindVersion(present.front())->create_time()) <=
          FromTimestamp(job.create_time())) {
    return absl::OkStatus();
  }
  return ModelNameTaken(version->model());
}

// Makes a version of the job's best checkpoint, or of the last one, and asks to
// load it.
void Transaction::Publish(uint64_t job_id) {
  JobRow* row = ledger_->FindJob(job_id);
  if (row == nullptr) return;
  const v1::Job& job = row->job;
  const v1::Checkpoint& checkpoint = job.best_checkpoints_size() > 0
                                         ? job.best_checkpoints(0)
                                         : job.last_checkpoint();
  v1::JobEvent event;
  v1::LogLine& log = *event.mutable_log();
  v1::ModelVersion made = VersionOf(job, checkpoint);
  const absl::Status settled = SettlePublished(job, &made);
  if (!settled.ok()) {
    log.set_severity(v1::LogLine::ERROR);
    log.set_text(absl::StrCat("not published: ", settled.message(),
                              "; `gpupool models promote ", job_id,
                              " --model NAME` publishes it"));
    return AppendEvent(*row, std::move(event));
  }
  const uint64_t id = CreateVersion(std::move(made));
  const v1::ModelVersion& version = *ledger_->FindVersion(id);
  // The result is on the disk already, so it is published in any case.
  const absl::Status loadable = CheckModelLoad(*ledger_, version);
  log.set_severity(loadable.ok() ? v1::LogLine::INFO : v1::LogLine::WARNING);
  log.set_text(absl::StrCat(
      "published as ", version.model(), " version ", version.version(),
      ", the checkpoint of step ", version.step(),
      loadable.ok() ? "" : "; not loaded: ", loadable.message()));
  AppendEvent(*row, std::move(event));
  if (!loadable.ok()) return;
  scheduler::VersionLoadRequested load{VersionId(id)};
  // Nobody has run this version for requests yet, so it is tried alone first.
  load.rehearse = true;
  Apply(load);
}

void Transaction::AfterCommit(std::function<void()> run) {
  answers_.push_back(std::move(run));
}

absl::Status Transaction::Commit() {
  // Each row is written once a turn, in its last state.
  for (uint64_t id : touched_jobs_) {
    JobRow* row = ledger_->FindJob(id);
    if (row == nullptr) continue;
    const scheduler::Job* job = ledger_->state.FindJob(JobId(id));
    if (job != nullptr) {
      row->job.set_run_seconds(absl::ToDoubleSeconds(job->Attained(now_)));
    }
    batch_.upsert_jobs.push_back(row->job);
  }
  for (uint64_t id : touched_versions_) {
    const v1::ModelVersion* row = ledger_->FindVersion(id);
    if (row != nullptr) {
      batch_.upsert_versions.push_back(*row);
    } else {
      batch_.delete_versions.push_back(id);
    }
  }
  for (const auto& [device, sequence] : acknowledgements_) {
    batch_.set_counters[absl::StrCat("reports/", device)] = sequence;
  }
  // Acknowledgements are in the same commit as what the reports changed. A
  // report is therefore neither lost nor counted twice.
  return store_->Commit(batch_);
}

void Transaction::ForgetEnded() {
  for (uint64_t id : ended_jobs_) {
    ledger_->RemoveJob(id);
    ledger_->state.ForgetJob(JobId(id));
  }
}

std::string Transaction::DeviceName(scheduler::DeviceId id) const {
  const scheduler::Device* device = ledger_->state.FindDevice(id);
  return device == nullptr ? "" : device->name;
}

}  // namespace gpupool::server
