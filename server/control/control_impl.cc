#include "server/control/control_impl.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gpupool/v1/device.pb.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "scheduler/state/state.h"
#include "scheduler/step/action.h"
#include "scheduler/step/event.h"
#include "scheduler/yield/preemption_reasons.h"
#include "server/control/calls/control_options.h"
#include "server/control/calls/enqueue.h"
#include "server/control/calls/log.h"
#include "server/control/devices/memory_requests.h"
#include "server/control/records/job_queues.h"
#include "server/control/records/transaction.h"
#include "server/control/recovery.h"
#include "server/control/report_intake.h"
#include "server/control/serving_sink.h"
#include "server/metrics/metrics.h"
#include "server/pool/worker_port.h"
#include "server/store/store.h"

namespace gpupool::server {
namespace {

// Longest sleep of the control thread. Bounds the effect of a clock that is set
// back.
constexpr absl::Duration kLongestSleep = absl::Seconds(1);

// Label of the gauges of the queue of events.
constexpr char kControlQueue[] = "control";

// Returns the fault for the code with which the pool reports a lost worker.
scheduler::DeviceFault FaultOfStatus(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kDeadlineExceeded:
      return scheduler::DeviceFault::kLostContext;
    case absl::StatusCode::kDataLoss:
      return scheduler::DeviceFault::kSuspect;
    default:
      return scheduler::DeviceFault::kNone;
  }
}

scheduler::WorkAtEnd ToWork(const WorkOwner& owner) {
  scheduler::WorkAtEnd work;
  if (owner.job_id > 0) work.job = scheduler::JobId(owner.job_id);
  if (owner.version_id > 0) {
    work.version = scheduler::VersionId(owner.version_id);
  }
  return work;
}

// Returns the event of a worker's Hello, with running and left attempts apart.
scheduler::WorkerReady ToEvent(scheduler::DeviceId device,
                               const worker::v1::HelloReply& reply) {
  scheduler::WorkerReady event;
  event.device = device;
  event.limit_bytes = reply.info().limit_bytes();
  for (const auto& running : reply.running()) {
    (running.left() ? event.left : event.running)
        .push_back({scheduler::JobId(running.job_id()), running.attempt()});
  }
  for (uint64_t id : reply.loaded_version_ids()) {
    event.loaded.push_back(scheduler::VersionId(id));
  }
  return event;
}

}  // namespace

ControlLoop::Impl::Impl(ControlOptions options,
                        ControlDependencies dependencies)
    : options_(std::move(options)),
      dependencies_(std::move(dependencies)),
      queue_(options_.queue_limit),
      groups_(options_.groups_folder),
      context_{options_,
               dependencies_.store,
               dependencies_.blobs,
               &queue_,
               &board_,
               &streams_,
               &waiters_,
               &groups_,
               &plans_,
               &forecaster_,
               &rehearsals_,
               &shared_versions_,
               &job_rehearsals_,
               &plan_searches_,
               dependencies_.now},
      janitor_(
          {options_.sweep_interval, options_.sweep_min_age, options_.state_dir},
          dependencies_.store, dependencies_.blobs),
      renewal_(context_),
      job_rehearsals_(context_),
      job_traces_(dependencies_.tracer, dependencies_.store) {
  context_.want_sweep = [this] { janitor_.Want(); };
  context_.tracer = dependencies_.tracer;
  for (const ControlDevice& device : options_.devices) {
    board_.AddDevice(device.name, device.limit_bytes, device.threads);
  }
  if (dependencies_.metrics != nullptr) {
    dependencies_.metrics->Set(GaugeName::kQueueLimit, {kControlQueue},
                               static_cast<double>(options_.queue_limit));
    dependencies_.metrics->Set(GaugeName::kQueueDepth, {kControlQueue}, 0);
    for (const auto& row : scheduler::PreemptionRows()) {
      dependencies_.metrics->Count(CounterName::kPreemptions, {row.label}, 0);
    }
  }
}

// Restores the state, and publishes it before the thread runs, so that the
// first reader sees it.
absl::Status ControlLoop::Impl::Recover() {
  const absl::Status status = server::Recover(options_, *dependencies_.store,
                                              dependencies_.now(), ledger_);
  if (!status.ok()) return status;
  const absl::Status collected = renewal_.Collect(ledger_);
  if (!collected.ok()) return collected;
  const absl::Status known = job_rehearsals_.Recover(*dependencies_.store);
  if (!known.ok()) return known;
  for (const auto& [device, sequence] : ledger_.report_sequences) {
    recovered_sequences_[device] = sequence;
  }
  const auto benches = dependencies_.store->LoadDeviceBenches();
  if (!benches.ok()) return benches.status();
  for (const v1::DeviceBench& bench : *benches) board_.SetMeasured(bench);
  board_.Publish(ledger_, false, dependencies_.now());
  for (const auto& [id, version] : ledger_.versions()) {
    shared_versions_.Set(id, version.shared());
  }
  groups_.RemoveUnneeded(ledger_.state);
  if (dependencies_.metrics != nullptr) {
    dependencies_.metrics->SetJobs(ledger_.job_counts);
    TellOfQueues();
    for (const auto& [id, row] : ledger_.jobs) {
      dependencies_.metrics->SetJob(row.job);
    }
  }
  for (const std::string& warning : QueueWarnings(ledger_.state)) {
    LogWarning(absl::StrCat("event=queues warning=\"", warning, "\""));
  }
  return absl::OkStatus();
}

void ControlLoop::Impl::TellOfQueues() const {
  Metrics* metrics = dependencies_.metrics;
  const scheduler::Queues& queues = ledger_.state.queues();
  for (uint32_t i = 0; i < queues.size(); ++i) {
    const scheduler::Queues::Entry& entry = queues.at(i);
    const std::string& queue = entry.queue.name;
    metrics->Set(GaugeName::kQueueJobs, {queue, "waiting"},
                 static_cast<double>(entry.waiting_jobs));
    metrics->Set(GaugeName::kQueueJobs, {queue, "running"},
                 static_cast<double>(entry.running_jobs));
    metrics->Set(GaugeName::kQueueDevices, {queue}, entry.held_devices);
  }
}

// Tells of the jobs that changed their state or reported. Each such change is
// an event, and the ledger keeps jobs that ended until the end of the turn.
void ControlLoop::Impl::TellOfJobs(Transaction& transaction) const {
  for (const uint64_t id : transaction.jobs_with_events()) {
    const JobRow* const row = transaction.ledger().FindJob(id);
    if (row != nullptr) dependencies_.metrics->SetJob(row->job);
  }
}

void ControlLoop::Impl::Start(WorkerPort* workers, ServingSink* serving) {
  context_.workers = workers;
  rehearsals_.Start(workers, dependencies_.metrics);
  serving_ = serving;
  runner_ = std::make_unique<ActionRunner>(
      context_, &ledger_, serving,
      [this](absl::Time time) { timers_.insert(time); });
  // Fires at once, so that recovered jobs that back off are queued if due.
  timers_.insert(dependencies_.now());
  timers_.insert(renewal_.HoldUntil(dependencies_.now()));
  queue_.Push([this](Transaction& transaction) {
    job_rehearsals_.Resume(transaction);
  });
  janitor_.Start();
  forecaster_.Start();
  thread_ = std::thread([this] { Run(); });
}

void ControlLoop::Impl::Stop() {
  // The control thread ends first, since it gives work to the other two.
  queue_.Close();
  if (thread_.joinable()) thread_.join();
  janitor_.Stop();
  forecaster_.Stop();
}

uint64_t ControlLoop::Impl::LastReportSequence(
    const std::string& device) const {
  auto it = recovered_sequences_.find(device);
  return it == recovered_sequences_.end() ? 0 : it->second;
}

void ControlLoop::Impl::Run() {
  queue_.SetConsumer(std::this_thread::get_id());
  bool healthy = true;
  while (healthy && !queue_.closed_and_empty()) healthy = RunOnce();
  if (!healthy) queue_.Close();
  waiters_.FailAll(NotRunning());
}

absl::Time ControlLoop::Impl::NextDeadline() const {
  absl::Duration sleep = kLongestSleep;
  if (!timers_.empty()) {
    sleep = std::min(sleep, *timers_.begin() - dependencies_.now());
  }
  return absl::Now() + std::max(sleep, absl::ZeroDuration());
}

bool ControlLoop::Impl::RunOnce() {
  const std::vector<Work> batch =
      queue_.PopBatch(options_.batch_limit, NextDeadline());
  dependencies_.store->LookAtDisk(dependencies_.now());
  Transaction transaction(&ledger_, dependencies_.store, dependencies_.now());
  const std::string clock_was_set =
      clock_watch_.Look(absl::Now() - transaction.now());
  if (!clock_was_set.empty()) LogWarning(clock_was_set);
  FireTimers(transaction);
  retention_.Run(transaction);
  for (const Work& work : batch) work(transaction);
  usage_.Charge(transaction, board_);
  // Nothing that depends on the turn may leave before it is on disk.
  if (!Commit(transaction)) return false;
  AfterCommit(transaction);
  return true;
}

void ControlLoop::Impl::FireTimers(Transaction& transaction) {
  if (timers_.empty() || *timers_.begin() > transaction.now()) return;
  timers_.erase(timers_.begin(), timers_.upper_bound(transaction.now()));
  transaction.Apply(scheduler::TimerFired{});
  renewal_.CheckHold(transaction);
}

// Commits the turn. After a failure `fatal` ends the process: memory is then
// ahead of the disk and must not be shown.
bool ControlLoop::Impl::Commit(Transaction& transaction) {
  const absl::Time begin = absl::Now();
  const absl::Status status = transaction.Commit();
  if (status.ok()) {
    if (dependencies_.metrics != nullptr && !transaction.batch().empty()) {
      dependencies_.metrics->Observe(HistogramName::kStoreCommit,
                                     absl::Now() - begin);
    }
    return true;
  }
  LogCritical(
      absl::StrCat("event=store_failed error=\"", status.message(), "\""));
  if (dependencies_.fatal) dependencies_.fatal(status);
  return false;
}

void ControlLoop::Impl::AfterCommit(Transaction& transaction) {
  if (transaction.changed_plan() || reasons_owed_) {
    reasons_owed_ =
        !board_.Publish(ledger_, queue_.size() > 0, transaction.now());
    groups_.RemoveUnneeded(ledger_.state);
  }
  Count(transaction);
  for (const uint64_t id : transaction.touched_versions()) {
    const v1::ModelVersion* const row = ledger_.FindVersion(id);
    shared_versions_.Set(id, row != nullptr && row->shared());
  }
  // After Publish, so that a caller who was answered sees the new state.
  for (auto& answer : transaction.answers()) answer();
  for (const auto& [device, sequence] : transaction.acknowledgements()) {
    context_.workers->AcknowledgeReports(device, sequence);
  }
  for (const auto& action : transaction.actions()) runner_->Perform(action);
  waiters_.Check(ledger_, transaction.touched_versions());
  streams_.Wake(transaction.jobs_with_events());
  forecaster_.Predict(transaction, ledger_.state, &queue_);
  job_traces_.Take(transaction);
  transaction.ForgetEnded();
}

void ControlLoop::Impl::Count(Transaction& transaction) {
  Metrics* metrics = dependencies_.metrics;
  if (metrics == nullptr) return;
  metrics->Set(GaugeName::kQueueDepth, {kControlQueue},
               static_cast<double>(queue_.size()));
  if (transaction.decision_time() > absl::ZeroDuration()) {
    metrics->Observe(HistogramName::kDecision, transaction.decision_time());
  }
  for (absl::Duration wait : transaction.queue_waits()) {
    metrics->Observe(HistogramName::kQueueWait, wait);
  }
  for (absl::Duration error : transaction.prediction_errors()) {
    metrics->Observe(HistogramName::kPredictionError, error);
  }
  for (scheduler::PreemptionReason reason : transaction.preemptions()) {
    metrics->Count(CounterName::kPreemptions, {scheduler::RowOf(reason).label});
  }
  for (absl::Duration took : transaction.saves()) {
    metrics->ObserveCheckpoint(CheckpointPhase::kSave, took);
  }
  for (absl::Duration took : transaction.writes()) {
    metrics->ObserveCheckpoint(CheckpointPhase::kWrite, took);
  }
  for (absl::Duration took : transaction.restores()) {
    metrics->ObserveCheckpoint(CheckpointPhase::kRestore, took);
  }
  metrics->Count(CounterName::kBlamedJobs, {},
                 static_cast<double>(transaction.blamed_jobs()));
  TellOfJobs(transaction);
  if (!transaction.changed_plan()) return;
  metrics->SetJobs(ledger_.job_counts);
  TellOfQueues();
  const scheduler::State& state = ledger_.state;
  uint32_t reserved = 0;
  for (const auto& [id, device] : state.devices()) {
    metrics->Set(GaugeName::kDeviceConsecutiveFaults, {device.name},
                 device.faults);
    metrics->Set(GaugeName::kDeviceCooling, {device.name}, device.cools());
    metrics->Set(GaugeName::kDeviceDrained, {device.name},
                 device.drain.has_value());
    reserved += state.reservations().At(id, state.now()) != nullptr;
  }
  metrics->Set(GaugeName::kReservedDevices, {}, reserved);
}

void ControlLoop::Impl::WorkerIsReady(const std::string& device,
                                      const worker::v1::HelloReply& reply) {
  if (device == kMetaDevice) {
    plans_.Clear();
    renewal_.Begin();
  }
  if (device == kRehearsalDevice) rehearsals_.WorkerIsReady();
  if (!board_.Has(device)) return;  // the meta worker is not scheduled
  queue_.Push([this, device, reply](Transaction& transaction) {
    board_.SetReady(device, reply);
    const auto* known = transaction.ledger().state.FindDevice(device);
    transaction.Apply(ToEvent(known->id, reply));
    const uint64_t in_force = reply.info().memory().limit_bytes();
    if (in_force > 0 ? in_force == known->limit_bytes : known->fraction == 1) {
      return;
    }
    // Registered after Apply but performed before its actions, so that the
    // limit reaches the worker before the jobs that start there.
    transaction.AfterCommit(
        [this, known] { SendMemoryFraction(context_, *known); });
  });
  if (dependencies_.metrics != nullptr) {
    dependencies_.metrics->SetDeviceUp(device, true);
  }
}

// Tells serving before the scheduler acts, so that no batch goes to the lost
// worker's ring.
void ControlLoop::Impl::WorkerIsLost(const std::string& device,
                                     const absl::Status& reason,
                                     const WorkOwner& work) {
  if (device == kRehearsalDevice) {
    rehearsals_.WorkerIsLost(reason, work);
  }
  if (!board_.Has(device)) return;
  queue_.Push([this, device, reason, work](Transaction& transaction) {
    board_.SetLost(device, reason);
    if (serving_ != nullptr) serving_->WorkerLost(device);
    const auto* known = transaction.ledger().state.FindDevice(device);
    transaction.Apply(
        scheduler::WorkerLost{known->id, std::string(reason.message()),
                              FaultOfStatus(reason.code()), ToWork(work)});
  });
  if (dependencies_.metrics != nullptr) {
    dependencies_.metrics->SetDeviceUp(device, false);
    dependencies_.metrics->ClearGpuReadings(device);
    dependencies_.metrics->CountWorkerLoss(device, reason.code());
  }
}

void ControlLoop::Impl::TakeReport(const std::string& device,
                                   const worker::v1::Report& report) {
  queue_.Push([device, report,
               keep = options_.keep_checkpoints](Transaction& transaction) {
    server::TakeReport(transaction, device, report, keep);
  });
}

void ControlLoop::Impl::TakeHeartbeat(const std::string& device,
                                      const worker::v1::Heartbeat& heartbeat) {
  const auto found =
      board_.TakeHeartbeat(device, heartbeat, dependencies_.now());
  for (const Disagreement& disagreement : found) {
    Resolve(device, disagreement);
  }
  Metrics* metrics = dependencies_.metrics;
  if (metrics == nullptr || !board_.Has(device)) return;
  metrics->Count(CounterName::kReconcileMismatches, {},
                 static_cast<double>(found.size()));
  metrics->SetDeviceMemory(heartbeat.memory());
  metrics->Set(GaugeName::kDeviceUtilization, {device},
               heartbeat.utilization());
  if (heartbeat.has_readings()) {
    // The first readings may arrive before the control thread has noted the
    // GPU.
    const v1::Device known = board_.Find(device);
    if (known.has_gpu()) metrics->SetGpuReadings(known);
  }
  metrics->SetTrainingSteps(device, heartbeat.step_count(),
                            heartbeat.step_seconds_total());
}

// Resolves the disagreement in the scheduler's words: a rank that the worker
// lacks was interrupted; a rank that it should not have is stopped. Decides in
// the transaction whether the disagreement still exists.
void ControlLoop::Impl::Resolve(const std::string& device,
                                const Disagreement& disagreement) {
  LogWarning(
      absl::StrCat("event=mismatch device=", device,
                   " job=", disagreement.attempt.job.value(),
                   " attempt=", disagreement.attempt.number,
                   " on_worker=", disagreement.on_worker ? "true" : "false"));
  queue_.Push([this, device, disagreement](Transaction& transaction) {
    const auto* known = transaction.ledger().state.FindDevice(device);
    const bool runs =
        transaction.ledger().state.RunsOn(disagreement.attempt, known->id);
    if (!disagreement.on_worker && runs) {
      transaction.Apply(scheduler::AttemptEnded{
          known->id, disagreement.attempt, scheduler::Outcome::kInterrupted,
          "the worker no longer has the attempt"});
    } else if (disagreement.on_worker && !runs) {
      transaction.AfterCommit([this, id = known->id, disagreement] {
        runner_->Perform(scheduler::StopJob{disagreement.attempt, id});
      });
    }
  });
}

}  // namespace gpupool::server
