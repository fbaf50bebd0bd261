#include "server/worker/job_runner.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/full_disk.h"
#include "engine/base/status_macros.h"
#include "server/ipc/work_page.h"
#include "server/worker/host_room.h"
#include "server/worker/profile/step_schedule.h"
#include "spdlog/spdlog.h"

namespace gpupool::server {
namespace {

using worker::v1::JobEnded;
using worker::v1::Report;
using worker::v1::StopJob;

// Default interval of progress reports: about four a second.
constexpr std::chrono::milliseconds kProgressInterval{250};

// Tasks of the writer behind which a stop may copy: the write of one other copy
// and the end of its attempt.
constexpr size_t kTasksBeforeStop = 2;

// Weight of the newest report in the estimate of the time that is left.
constexpr double kNewestShare = 0.2;

JobEnded::DeviceFault FaultOf(int exit_code) {
  if (exit_code == 0) return JobEnded::NONE;
  return exit_code == kExitDeviceSuspect ? JobEnded::SUSPECT
                                         : JobEnded::LOST_CONTEXT;
}

double Seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

// Returns the end for an error: the job's fault, or an interruption that is
// retried. OK means stopped.
JobEnded EndedBy(const Engine* engine, const absl::Status& status,
                 uint64_t step) {
  JobEnded ended;
  if (status.ok()) {
    ended.set_outcome(JobEnded::STOPPED);
    return ended;
  }
  ended.set_outcome(engine->IsJobsOwnFault(status) ? JobEnded::FAILED
                                                   : JobEnded::INTERRUPTED);
  *ended.mutable_error() = engine->ToJobError(status, step);
  ended.set_device_fault(FaultOf(engine->ExitCodeFor(status)));
  ended.set_full_disk(engine::IsFullDisk(status));
  return ended;
}

// Returns whether the profile begins after the first active step of its cycle.
// If an earlier attempt recorded the steps before, the daemon keeps the longer
// profile.
bool BeginsWithinCycle(const v1::ProfileSchedule& schedule,
                       const v1::RecordedProfile& recorded) {
  const ScheduledStep before =
      StepSchedule(schedule).At(recorded.first_step() - 1);
  return before.kept && before.cycle == recorded.cycle();
}

// Writes the copy and reports the checkpoint. `report` has the time for which
// training paused.
absl::Status WriteCopy(const engine::CheckpointWrite& write, Report report,
                       const JobRunner::ReportSink& sink) {
  const JobRunner::Clock::time_point start = JobRunner::Clock::now();
  ASSIGN_OR_RETURN(v1::Checkpoint checkpoint, write());
  report.set_write_seconds(Seconds(JobRunner::Clock::now() - start));
  checkpoint.set_save_seconds(report.checkpoint().save_seconds());
  checkpoint.set_job_id(report.job_id());
  checkpoint.set_attempt(report.attempt());
  *report.mutable_checkpoint() = std::move(checkpoint);
  report.set_time_unix_nanos(absl::GetCurrentTimeNanos());
  sink(std::move(report));
  return absl::OkStatus();
}

}  // namespace

JobRunner::JobRunner(worker::v1::StartJob request, Environment environment,
                     std::shared_ptr<engine::AbortSwitch> abort)
    : request_(std::move(request)),
      engine_(environment.engine),
      sink_(std::move(environment.sink)),
      writer_(environment.writer),
      abort_(std::move(abort)),
      recorder_(request_.spec().training()),
      checkpoint_pace_(environment.checkpoint_interval) {}

uint64_t JobRunner::step() const {
  return training_ == nullptr ? 0 : training_->step();
}

void JobRunner::Stop(StopJob::Reason reason) {
  // CANCELLED wins over a later drain.
  if (stop_ != StopJob::CANCELLED) stop_ = reason;
  if (reason == StopJob::DRAIN && in_group() && training_ != nullptr) {
    training_->RequestStop();
  }
}

// Returns whether to stop now. In a group only after the ranks have agreed: a
// rank that ended alone would leave the others waiting.
bool JobRunner::MustStop() const {
  if (stop_ == StopJob::CANCELLED || !in_group()) {
    return stop_ != StopJob::REASON_UNSPECIFIED;
  }
  return training_ != nullptr && training_->stop_agreed() &&
         training_->step() < training_->total_steps();
}

bool JobRunner::Advance(absl::FunctionRef<void()> meanwhile) {
  last_step_time_ = std::chrono::nanoseconds(0);
  if (ended_) return false;
  if (MustStop()) return EndStopped();
  if (training_ == nullptr) return Open();
  if (training_->done()) return EndSucceeded();
  absl::Status status = MakeStep(meanwhile);
  if (status.ok()) status = FinishStep();
  return status.ok() ? true : EndFailed(status);
}

// Opens the training and reports the start with the time since the request,
// which is the cost of a restart.
bool JobRunner::Open() {
  absl::StatusOr<std::unique_ptr<engine::Training>> training =
      engine_->StartTraining(request_, abort_);
  if (!training.ok()) return EndFailed(training.status());
  training_ = *std::move(training);
  if (stop_ == StopJob::DRAIN) training_->RequestStop();
  first_step_ = checkpoint_step_ = reported_step_ = training_->step();
  reported_at_ = Clock::now();
  checkpoint_pace_.Start(reported_at_);
  spdlog::info("job started job={} attempt={} from_step={} total_steps={}",
               job_id(), attempt(), first_step_, training_->total_steps());
  Report report = NewReport();
  report.mutable_started()->set_from_step(first_step_);
  report.mutable_started()->set_total_steps(training_->total_steps());
  report.mutable_started()->set_start_seconds(
      Seconds(Clock::now() - requested_at_));
  Say(std::move(report));
  return true;
}

absl::Status JobRunner::MakeStep(absl::FunctionRef<void()> meanwhile) {
  StartProfile();
  const auto report = [this](absl::StatusOr<v1::RecordedProfile> recorded) {
    ReportRecorded(std::move(recorded));
  };
  // A profile that was asked for goes first.
  if (recorder_.IsDue(training_->step() + 1) && !profile_.has_value()) {
    recorder_.BeforeStep(*training_, report);
  }
  const Clock::time_point start = Clock::now();
  RETURN_IF_ERROR(training_->StartStep());
  while (!training_->StepIsDone()) meanwhile();
  RETURN_IF_ERROR(training_->FinishStep());
  last_step_time_ = Clock::now() - start;
  NoteProfiledStep();
  if (recorder_.recording()) recorder_.AfterStep(*training_, report);
  return absl::OkStatus();
}

void JobRunner::Profile(uint32_t steps, ProfileSink done) {
  if (profile_.has_value()) {
    return done(absl::FailedPreconditionError(
        absl::StrCat("job ", job_id(), " is being profiled for ",
                     profile_->steps, " steps; try again when they are made")));
  }
  if (recorder_.recording()) {
    return done(absl::FailedPreconditionError(absl::StrCat(
        "job ", job_id(),
        " is being profiled by its own schedule "
        "(training.profile); try again when its cycle has ended")));
  }
  profile_ = {.steps = steps, .done = std::move(done)};
}

void JobRunner::StartProfile() {
  if (!profile_.has_value() || profile_->started) return;
  const absl::Status started = training_->StartProfile(profile_->steps);
  profile_->started = started.ok();
  if (started.ok()) return;
  profile_->done(started);
  profile_.reset();
}

void JobRunner::NoteProfiledStep() {
  if (!profile_.has_value()) return;
  if (++profile_->made == profile_->steps) EndProfile();
}

void JobRunner::EndProfile() {
  if (!profile_.has_value()) return;
  const PendingProfile profile = *std::exchange(profile_, std::nullopt);
  if (profile.made == 0) {
    return profile.done(absl::FailedPreconditionError(
        absl::StrCat("job ", job_id(), " ended before a step was profiled")));
  }
  const absl::StatusOr<engine::StoredProfile> stored = training_->TakeProfile();
  if (!stored.ok()) return profile.done(stored.status());
  spdlog::info("job profiled job={} attempt={} steps={} bytes={}", job_id(),
               attempt(), profile.made, stored->bytes);
  worker::v1::ProfileReply reply;
  reply.set_sha256(stored->sha256);
  reply.set_bytes(stored->bytes);
  reply.set_steps(profile.made);
  profile.done(std::move(reply));
}

void JobRunner::ReportRecorded(absl::StatusOr<v1::RecordedProfile> recorded) {
  if (!recorded.ok()) {
    return SayLine(
        v1::LogLine::WARNING,
        absl::StrCat("no profile was recorded: ", recorded.status().message()));
  }
  const bool may_lose =
      first_step_ > 0 &&
      BeginsWithinCycle(request_.spec().training().profile(), *recorded);
  SayLine(v1::LogLine::INFO,
          absl::StrCat("recorded a profile of ", recorded->steps(),
                       " steps from step ", recorded->first_step(), " on; ",
                       may_lose
                           ? "unless an earlier attempt recorded more steps of "
                             "the same cycle, "
                           : "",
                       "`gpupool profile ", job_id(), " --recorded ",
                       recorded->cycle(), " -O trace.json` writes it"));
  Report report = NewReport();
  *report.mutable_profile() = *std::move(recorded);
  Say(std::move(report));
}

// Does what is due after a step. Evaluation comes before the checkpoint, so
// that a checkpoint knows all evaluations up to its step and a resumed attempt
// does not repeat them. The end of the job does both for the last step.
absl::Status JobRunner::FinishStep() {
  {  // a failed write is reported at the next step
    absl::MutexLock lock(&written_->mutex);
    RETURN_IF_ERROR(written_->newest);
  }
  const Clock::time_point now = Clock::now();
  if (ProgressIsDue(now)) RETURN_IF_ERROR(ReportProgress(now));
  const uint64_t step = training_->step();
  if (step >= training_->total_steps()) return absl::OkStatus();
  if (EvaluationIsDue()) RETURN_IF_ERROR(Evaluate());
  return CheckpointIsDue(now) ? SaveBehind(0) : absl::OkStatus();
}

bool JobRunner::CheckpointIsDue(Clock::time_point now) {
  const uint64_t step = training_->step();
  const uint64_t every = request_.spec().training().checkpoint_every_steps();
  if (every > 0 && step % every == 0) return true;
  // Other ranks save nothing, and need not agree.
  if (every == 0 && leads()) {
    Clock::duration written;
    {
      absl::MutexLock lock(&written_->mutex);
      written = written_->longest;
    }
    checkpoint_pace_.NoteWrite(written);
    if (checkpoint_pace_.IsDue(now)) return true;
  }
  return training_->evaluated_step() == step &&
         training_->newest_evaluation_is_best();
}

bool JobRunner::ProgressIsDue(Clock::time_point now) {
  const uint64_t step = training_->step();
  if (step == first_step_ + 1 || step == training_->total_steps()) return true;
  const uint64_t every = request_.spec().training().report_every_steps();
  if (every == 0) return now - reported_at_ >= kProgressInterval;
  return step % every == 0 && report_pace_.Take(now);
}

absl::Status JobRunner::ReportProgress(Clock::time_point now) {
  ASSIGN_OR_RETURN(const double loss, training_->Loss());
  const uint64_t step = training_->step();
  const double seconds = Seconds(now - reported_at_);
  const double steps_per_second =
      seconds > 0 ? static_cast<double>(step - reported_step_) / seconds : 0;
  Report report = NewReport();
  v1::Progress* progress = report.mutable_progress();
  progress->set_step(step);
  progress->set_total_steps(training_->total_steps());
  progress->set_epoch(training_->epoch());
  progress->set_loss(loss);
  if (const auto rate = training_->learning_rate()) {
    progress->set_learning_rate(*rate);
  }
  progress->set_input_wait(training_->input_wait());
  progress->set_loss_scale(training_->loss_scale());
  progress->set_skipped_steps(training_->skipped_steps());
  if (steps_per_second > 0) {
    progress->set_samples_per_second(steps_per_second *
                                     training_->rows_per_step());
    const double newest = 1 / steps_per_second;
    seconds_per_step_ =
        seconds_per_step_ > 0
            ? seconds_per_step_ + kNewestShare * (newest - seconds_per_step_)
            : newest;
    progress->set_seconds_left(
        static_cast<double>(training_->total_steps() - step) *
        seconds_per_step_);
  }
  reported_step_ = step;
  reported_at_ = now;
  Say(std::move(report));
  return absl::OkStatus();
}

bool JobRunner::EvaluationIsDue() const {
  if (!training_->has_held_out_rows()) return false;
  const v1::TrainingSpec& training = request_.spec().training();
  const uint64_t steps = training.evaluate_every_steps();
  if (steps > 0 && training_->step() % steps == 0) return true;
  const uint32_t epochs = training.evaluate_every_epochs();
  return epochs > 0 && training_->at_epoch_end() &&
         training_->epoch() % epochs == 0;
}

// Waits for copies under way first, so that checkpoints reach the disk in the
// order of their steps.
absl::Status JobRunner::SaveCheckpoint() {
  checkpoint_step_ = training_->step();
  if (!leads()) return absl::OkStatus();
  const Clock::time_point start = Clock::now();
  RETURN_IF_ERROR(WaitForWrites());
  ASSIGN_OR_RETURN(v1::Checkpoint checkpoint, training_->SaveCheckpoint());
  checkpoint_pace_.NoteSaved(start, Clock::now() - start);
  checkpoint.set_save_seconds(Seconds(Clock::now() - start));
  checkpoint.set_job_id(job_id());
  checkpoint.set_attempt(attempt());
  Report report = NewReport();
  *report.mutable_checkpoint() = std::move(checkpoint);
  Say(std::move(report));
  return absl::OkStatus();
}

absl::StatusOr<engine::CheckpointWrite> JobRunner::CopyCheckpoint() {
  const uint64_t bytes = training_->checkpoint_bytes();
  const uint64_t room = RoomForCopy(FreeHostBytes());
  if (bytes <= room) return training_->CopyCheckpoint();
  return absl::ResourceExhaustedError(
      absl::StrCat("a copy of the checkpoint takes ", bytes,
                   " bytes of host memory; there is room for ", room));
}

absl::Status JobRunner::SaveBehind(size_t left) {
  if (!leads()) return SaveCheckpoint();
  const Clock::time_point start = Clock::now();
  // Before the copy, so that the number of copies in host memory is bounded.
  writer_->WaitUntilLeft(left);
  absl::StatusOr<engine::CheckpointWrite> copied = CopyCheckpoint();
  if (absl::IsResourceExhausted(copied.status())) {
    spdlog::warn("checkpoint written while training waits job={} reason=\"{}\"",
                 job_id(), copied.status().ToString());
    return SaveCheckpoint();
  }
  RETURN_IF_ERROR(copied.status());
  checkpoint_step_ = training_->step();
  checkpoint_pace_.NoteSaved(start, Clock::now() - start);
  Report report = NewReport();
  report.mutable_checkpoint()->set_save_seconds(Seconds(Clock::now() - start));
  {
    absl::MutexLock lock(&written_->mutex);
    ++written_->left;
  }
  writer_->Post([write = *std::move(copied), report = std::move(report),
                 sink = sink_, written = written_]() mutable {
    const Clock::time_point begin = Clock::now();
    const absl::Status status = WriteCopy(write, std::move(report), sink);
    write = nullptr;  // frees the copy before the write counts as done
    absl::MutexLock lock(&written->mutex);
    written->newest = status;
    written->longest = std::max(written->longest, Clock::now() - begin);
    --written->left;
  });
  return absl::OkStatus();
}

absl::Status JobRunner::WaitForWrites() {
  absl::MutexLock lock(&written_->mutex);
  written_->mutex.Await(absl::Condition(
      +[](Written* written) ABSL_EXCLUSIVE_LOCKS_REQUIRED(written->mutex) {
        return written->left == 0;
      },
      written_.get()));
  return written_->newest;
}

absl::Status JobRunner::Evaluate() {
  ASSIGN_OR_RETURN(v1::Evaluation evaluation, training_->Evaluate());
  Report report = NewReport();
  *report.mutable_evaluation() = std::move(evaluation);
  Say(std::move(report));
  return absl::OkStatus();
}

// Evaluates and saves the last step, unless that was done.
bool JobRunner::EndSucceeded() {
  absl::Status status;
  if (training_->has_held_out_rows() &&
      training_->evaluated_step() != training_->step()) {
    status = Evaluate();
  }
  if (status.ok() && (training_->step() > checkpoint_step_ ||
                      training_->step() == first_step_)) {
    status = SaveCheckpoint();
  }
  if (status.ok()) status = WaitForWrites();
  if (!status.ok()) return EndFailed(status);
  if (training_->step() < training_->total_steps()) ReportEarlyStop();
  JobEnded ended;
  ended.set_outcome(JobEnded::SUCCEEDED);
  return End(std::move(ended));
}

void JobRunner::ReportEarlyStop() {
  SayLine(v1::LogLine::INFO,
          absl::StrCat("stopped early after step ", training_->step(), " of ",
                       training_->total_steps(),
                       ": the held-out loss has not improved in ",
                       request_.spec().training().early_stopping().patience(),
                       " evaluations"));
}

void JobRunner::SayLine(v1::LogLine::Severity severity,
                        std::string text) const {
  Report report = NewReport();
  report.mutable_log()->set_severity(severity);
  report.mutable_log()->set_text(std::move(text));
  Say(std::move(report));
}

// Saves behind when stopped with a checkpoint. SAVING frees the device before
// the copy is on disk.
bool JobRunner::EndStopped() {
  if (stop_ != StopJob::CANCELLED && training_ != nullptr) {
    if (training_->step() > checkpoint_step_) {
      const absl::Status copied = SaveBehind(kTasksBeforeStop);
      if (!copied.ok()) return EndFailed(copied);
    }
    saves_ = IsBeingWritten();
    if (!saves_) {
      const absl::Status written = WaitForWrites();
      if (!written.ok()) return EndFailed(written);
    }
  }
  JobEnded ended;
  ended.set_outcome(saves_ ? JobEnded::SAVING : JobEnded::STOPPED);
  return End(std::move(ended));
}

bool JobRunner::IsBeingWritten() const {
  absl::MutexLock lock(&written_->mutex);
  return written_->left > 0;
}

void JobRunner::EndSaved() {
  End(EndedBy(engine_, WaitForWrites(), checkpoint_step_));
}

bool JobRunner::EndFailed(const absl::Status& status) {
  // A retry resumes from the checkpoint that is on its way to the disk.
  WaitForWrites().IgnoreError();
  // An aborted group is no error of this rank: it was told to stop.
  return End(
      EndedBy(engine_,
              in_group() && absl::IsAborted(status) ? absl::OkStatus() : status,
              step()));
}

bool JobRunner::End(JobEnded ended) {
  EndProfile();
  if (training_ != nullptr) {
    recorder_.End(*training_,
                  [this](absl::StatusOr<v1::RecordedProfile> recorded) {
                    ReportRecorded(std::move(recorded));
                  });
    *ended.mutable_memory() = training_->memory();
  }
  spdlog::info("job ended job={} attempt={} step={} outcome={} error=\"{}\"",
               job_id(), attempt(), step(),
               JobEnded::Outcome_Name(ended.outcome()),
               ended.error().message());
  Report report = NewReport();
  *report.mutable_ended() = std::move(ended);
  training_.reset();  // free its memory before the daemon hears of the end
  ended_ = true;
  sink_(std::move(report));
  return false;
}

void JobRunner::Say(Report report) const {
  if (leads()) sink_(std::move(report));
}

Report JobRunner::NewReport() const {
  Report report;
  report.set_job_id(job_id());
  report.set_attempt(attempt());
  report.set_time_unix_nanos(absl::GetCurrentTimeNanos());
  return report;
}

}  // namespace gpupool::server
