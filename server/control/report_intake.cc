#include "server/control/report_intake.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gpupool/v1/job.pb.h"
#include "gpupool/v1/limits.pb.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "scheduler/state/device.h"
#include "scheduler/step/event.h"
#include "server/control/records/ledger.h"
#include "server/control/records/rows.h"
#include "server/control/records/transaction.h"

namespace gpupool::server {
namespace {

using scheduler::AttemptRef;
using scheduler::DeviceId;
using scheduler::JobId;

constexpr size_t kMaxLogBytes = 4096;

struct Intake {
  Transaction& transaction;
  DeviceId device;
  const worker::v1::Report& report;
  AttemptRef attempt;
  size_t keep_checkpoints;

  // Returns the row of the attempt's job if it has not ended and no later
  // attempt was started, else null.
  JobRow* row() const {
    JobRow* row = transaction.ledger().FindJob(report.job_id());
    if (row == nullptr || row->job.attempt() != report.attempt()) {
      return nullptr;
    }
    const auto state = static_cast<scheduler::JobState>(row->job.state());
    return scheduler::IsEnded(state) ? nullptr : row;
  }

  v1::JobEvent NewEvent() const {
    v1::JobEvent event;
    if (report.time_unix_nanos() > 0) {
      *event.mutable_time() =
          ToTimestamp(absl::FromUnixNanos(report.time_unix_nanos()));
    }
    return event;
  }
};

// Takes the start of an attempt. Only an attempt that resumed tells the cost of
// a restart.
void TakeStarted(const Intake& in) {
  const worker::v1::JobStarted& started = in.report.started();
  scheduler::AttemptStarted event{in.device, in.attempt, std::nullopt};
  if (started.from_step() > 0 && started.start_seconds() > 0) {
    event.restored_in = absl::Seconds(started.start_seconds());
  }
  if (!in.transaction.Apply(event)) return;
  if (event.restored_in)
    in.transaction.restores().push_back(*event.restored_in);
  JobRow* row = in.row();
  v1::Progress& progress = *row->job.mutable_progress();
  progress.set_step(in.report.started().from_step());
  progress.set_total_steps(in.report.started().total_steps());
  in.transaction.TouchJob(row->job.id());
}

// Takes progress, and the time left by the worker's estimate.
void TakeProgress(const Intake& in) {
  const v1::Progress& progress = in.report.progress();
  scheduler::ProgressMade made{in.device, in.attempt, progress.step(),
                               std::nullopt};
  if (progress.seconds_left() > 0) {
    made.remaining = absl::Seconds(progress.seconds_left());
  }
  if (!in.transaction.Apply(made)) return;
  JobRow* row = in.row();
  *row->job.mutable_progress() = progress;
  v1::JobEvent event = in.NewEvent();
  *event.mutable_progress() = progress;
  in.transaction.AppendEvent(*row, std::move(event));
}

// Returns whether the job keeps a profile of the same cycle that ends before
// `later` begins and has more steps.
bool KeepsLongerBegin(const v1::Job& job, const v1::RecordedProfile& later) {
  return std::any_of(
      job.recorded_profiles().begin(), job.recorded_profiles().end(),
      [&](const v1::RecordedProfile& earlier) {
        return earlier.cycle() == later.cycle() &&
               earlier.first_step() + earlier.steps() <= later.first_step() &&
               earlier.steps() > later.steps();
      });
}

// Keeps a profile with the job, in place of an earlier one of the same cycle.
// If two attempts divide the steps of a cycle, the longer profile stays. Drops
// the earliest profiles beyond the limits.
void TakeProfile(const Intake& in) {
  JobRow* row = in.row();
  if (row == nullptr) return;
  if (KeepsLongerBegin(row->job, in.report.profile())) return;
  auto& kept = *row->job.mutable_recorded_profiles();
  v1::RecordedProfile profile = in.report.profile();
  profile.set_attempt(in.report.attempt());
  const v1::JobEvent event = in.NewEvent();
  *profile.mutable_time() =
      event.has_time() ? event.time() : ToTimestamp(in.transaction.now());
  kept.erase(std::remove_if(kept.begin(), kept.end(),
                            [&](const v1::RecordedProfile& other) {
                              return other.cycle() == profile.cycle();
                            }),
             kept.end());
  *kept.Add() = std::move(profile);
  std::stable_sort(
      kept.begin(), kept.end(),
      [](const v1::RecordedProfile& a, const v1::RecordedProfile& b) {
        return a.cycle() < b.cycle();
      });
  uint64_t bytes = 0;
  for (const v1::RecordedProfile& each : kept) bytes += each.bytes();
  while (!kept.empty() && (kept.size() > v1::MAX_RECORDED_PROFILES ||
                           bytes > v1::MAX_RECORDED_PROFILE_BYTES)) {
    bytes -= kept.begin()->bytes();
    kept.erase(kept.begin());
  }
  in.transaction.TouchJob(row->job.id());
}

void TakeEvaluation(const Intake& in) {
  JobRow* row = in.row();
  if (row == nullptr) return;
  *row->job.mutable_evaluation() = in.report.evaluation();
  v1::JobEvent event = in.NewEvent();
  *event.mutable_evaluation() = in.report.evaluation();
  in.transaction.AppendEvent(*row, std::move(event));
}

void TakeLog(const Intake& in) {
  JobRow* row = in.row();
  if (row == nullptr) return;
  v1::JobEvent event = in.NewEvent();
  *event.mutable_log() = in.report.log();
  if (event.log().text().size() > kMaxLogBytes) {
    event.mutable_log()->mutable_text()->resize(kMaxLogBytes);
  }
  in.transaction.AppendEvent(*row, std::move(event));
}

// Puts the checkpoint in its place among the best ones. Between equal losses
// the earlier checkpoint is the better one.
void RankCheckpoint(const v1::Checkpoint& checkpoint, v1::Job& job) {
  const auto kept =
      static_cast<int>(job.spec().training().keep_best_checkpoints());
  if (kept == 0 || !checkpoint.has_held_out_loss()) return;
  auto& best = *job.mutable_best_checkpoints();
  best.erase(std::remove_if(best.begin(), best.end(),
                            [&](const v1::Checkpoint& other) {
                              return other.step() == checkpoint.step();
                            }),
             best.end());
  *best.Add() = checkpoint;
  std::stable_sort(best.begin(), best.end(),
                   [](const v1::Checkpoint& a, const v1::Checkpoint& b) {
                     return a.held_out_loss() < b.held_out_loss();
                   });
  if (best.size() > kept) best.DeleteSubrange(kept, best.size() - kept);
}

bool IsAmongBest(const v1::Job& job, uint64_t step) {
  return std::any_of(job.best_checkpoints().begin(),
                     job.best_checkpoints().end(),
                     [step](const v1::Checkpoint& checkpoint) {
                       return checkpoint.step() == step;
                     });
}

// Drops checkpoints, oldest first, except the newest ones, the best and the
// published ones.
void PruneCheckpoints(const Intake& in, JobRow& row) {
  auto& steps = row.checkpoint_steps;
  std::deque<uint64_t> kept;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (i + in.keep_checkpoints >= steps.size() ||
        IsAmongBest(row.job, steps[i]) ||
        in.transaction.ledger().IsPublished(row.job.id(), steps[i])) {
      kept.push_back(steps[i]);
      continue;
    }
    in.transaction.batch().delete_checkpoints.push_back(
        {row.job.id(), steps[i]});
  }
  steps = std::move(kept);
}

// Takes a checkpoint that is on disk: row, event, the job's best and last ones.
// Prunes older ones.
void TakeCheckpoint(const Intake& in) {
  v1::Checkpoint checkpoint = in.report.checkpoint();
  const absl::Duration took = absl::Seconds(checkpoint.save_seconds());
  const absl::Duration wrote = absl::Seconds(in.report.write_seconds());
  if (!in.transaction.Apply(scheduler::CheckpointSaved{
          in.device, in.attempt, checkpoint.step(), took, wrote})) {
    return;
  }
  if (took > absl::ZeroDuration()) in.transaction.saves().push_back(took);
  if (wrote > absl::ZeroDuration()) in.transaction.writes().push_back(wrote);
  in.transaction.SetCheckpointTime(in.report.job_id(), took + wrote);
  JobRow* row = in.row();
  v1::JobEvent event = in.NewEvent();
  checkpoint.set_job_id(in.report.job_id());
  checkpoint.set_attempt(in.report.attempt());
  if (!checkpoint.has_time()) {
    *checkpoint.mutable_time() =
        event.has_time() ? event.time() : ToTimestamp(in.transaction.now());
  }
  *row->job.mutable_last_checkpoint() = checkpoint;
  RankCheckpoint(checkpoint, row->job);
  in.transaction.batch().upsert_checkpoints.push_back(checkpoint);
  if (row->checkpoint_steps.empty() ||
      row->checkpoint_steps.back() < checkpoint.step()) {
    row->checkpoint_steps.push_back(checkpoint.step());
  }
  *event.mutable_checkpoint() = std::move(checkpoint);
  in.transaction.AppendEvent(*row, std::move(event));
  PruneCheckpoints(in, *row);
}

scheduler::DeviceFault FaultOf(const worker::v1::JobEnded& ended) {
  switch (ended.device_fault()) {
    case worker::v1::JobEnded::LOST_CONTEXT:
      return scheduler::DeviceFault::kLostContext;
    case worker::v1::JobEnded::SUSPECT:
      return scheduler::DeviceFault::kSuspect;
    default:
      return scheduler::DeviceFault::kNone;
  }
}

// Takes the end of a rank. An unknown outcome of a newer worker counts as an
// interruption, which is retried.
void TakeEnded(const Intake& in) {
  const worker::v1::JobEnded& ended = in.report.ended();
  JobRow* row = in.row();
  // Only the report of rank 0, on the job's first device, has the memory of the
  // whole attempt.
  const bool leads =
      row != nullptr &&
      in.transaction.ledger().state.devices().at(in.device).name ==
          row->job.device();
  if (leads && ended.has_memory()) {
    *row->job.mutable_memory() = ended.memory();
  }
  auto outcome = scheduler::Outcome::kInterrupted;
  if (ended.outcome() != worker::v1::JobEnded::OUTCOME_UNSPECIFIED) {
    outcome = static_cast<scheduler::Outcome>(ended.outcome());
  }
  const bool taken = in.transaction.Apply(
      scheduler::AttemptEnded{in.device, in.attempt, outcome,
                              ended.error().message(), FaultOf(ended),
                              ended.full_disk()},
      outcome == scheduler::Outcome::kFailed ? &ended.error() : nullptr);
  if (row != nullptr && taken) in.transaction.TouchJob(in.report.job_id());
}

void TakeEvent(const Intake& in) {
  switch (in.report.event_case()) {
    case worker::v1::Report::kStarted:
      return TakeStarted(in);
    case worker::v1::Report::kProgress:
      return TakeProgress(in);
    case worker::v1::Report::kLog:
      return TakeLog(in);
    case worker::v1::Report::kCheckpoint:
      return TakeCheckpoint(in);
    case worker::v1::Report::kEvaluation:
      return TakeEvaluation(in);
    case worker::v1::Report::kProfile:
      return TakeProfile(in);
    case worker::v1::Report::kEnded:
      return TakeEnded(in);
    case worker::v1::Report::EVENT_NOT_SET:
      return;
  }
}

}  // namespace

void TakeReport(Transaction& transaction, const std::string& device,
                const worker::v1::Report& report, size_t keep_checkpoints) {
  const scheduler::Device* known =
      transaction.ledger().state.FindDevice(device);
  if (known == nullptr) return;
  uint64_t& last = transaction.ledger().report_sequences[device];
  // Sequences rise per device. A report that was taken before is sent again
  // when its acknowledgement was lost.
  const bool is_new = report.sequence() > last;
  if (is_new) last = report.sequence();
  transaction.acknowledgements()[device] = last;
  if (!is_new) return;
  TakeEvent({transaction, known->id, report,
             AttemptRef{JobId(report.job_id()), report.attempt()},
             keep_checkpoints});
}

}  // namespace gpupool::server
