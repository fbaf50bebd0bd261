// Runs one attempt of a training job, step by step: reports, checkpoints,
// evaluations and the end. Never blocks for longer than one step, checkpoint or
// evaluation takes.
//
// Checkpoints:
//   * Those on the way are copied to host memory and written in the background
//     while training goes on. An attempt that is told to save and stop leaves
//     the device as soon as its checkpoint is copied (JobEnded.SAVING).
//   * A checkpoint is reported when it is on disk.
//   * Before one on the way is copied all earlier ones must be written, so that
//     a job saves the same steps however fast the disk is. The copy of a stop
//     waits until at most one other is left, so that the host holds at most
//     two.
//   * Training waits for the disk when the host has no room for a copy, and for
//     the last checkpoint of an attempt that succeeds.
//
// In a group all ranks do the same, but only rank 0 saves checkpoints and
// reports. Only its end is reported by every rank. A drain ends all ranks after
// the same step, whichever of them was told.
//
// Thread-safety: the compute thread. EndSaved: the writer's thread, when nobody
// else uses the runner any more. Owns the training.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "server/worker/engine.h"
#include "server/worker/job_pace.h"
#include "server/worker/profile/profile_recorder.h"
#include "server/worker/side_thread.h"

namespace gpupool::server {

class JobRunner {
 public:
  using Clock = std::chrono::steady_clock;
  // Takes a report without its sequence. Called on the compute thread and on
  // the writer's.
  using ReportSink = std::function<void(worker::v1::Report)>;

  // The parts of a worker that all its runners share.
  struct Environment {
    Engine* engine;
    ReportSink sink;
    SideThread* writer;
    // Time between checkpoints of jobs that do not ask for an interval of their
    // own; zero: none.
    Clock::duration checkpoint_interval{0};
  };

  // The engine must outlive the runner; the engine and the writer must outlive
  // all writes. Once `abort` has been used the job ends as if cancelled.
  JobRunner(worker::v1::StartJob request, Environment environment,
            std::shared_ptr<engine::AbortSwitch> abort = nullptr);

  // Does the next piece of work: opens the training, or makes one step with the
  // reports, checkpoint and evaluation that are due after it, or ends the job.
  // Returns false once the job has ended and JobEnded has been reported. Calls
  // `meanwhile` again and again while the device runs the step.
  bool Advance(absl::FunctionRef<void()> meanwhile = [] {});

  // Ends the job at the next Advance: without a checkpoint (CANCELLED) or after
  // saving one (DRAIN). In a group a drain takes effect after the step on which
  // the ranks agree.
  void Stop(worker::v1::StopJob::Reason reason);

  // Returns true when Advance has returned false, the training is gone, and
  // only EndSaved is left. The writer's thread must call that after all that
  // was posted there.
  bool saves() const { return saves_; }
  // Reports the end of the attempt, now that its checkpoint is on disk or has
  // failed.
  void EndSaved();

  // Times the next `steps` steps. `done` gets the trace after the last of them,
  // or when the job has ended after some of them. It gets FailedPrecondition
  // when the job ends before the first of them, or is being profiled already,
  // also by its own schedule.
  // It is called once, on the compute thread, unless a fault of the device ends
  // the worker before.
  using ProfileSink =
      std::function<void(absl::StatusOr<worker::v1::ProfileReply>)>;
  void Profile(uint32_t steps, ProfileSink done);

  uint64_t job_id() const { return request_.job_id(); }
  uint32_t attempt() const { return request_.attempt(); }
  uint64_t step() const;
  // Returns the time of the last step; zero when the last Advance made none.
  std::chrono::nanoseconds last_step_time() const { return last_step_time_; }

 private:
  bool in_group() const { return request_.has_group(); }
  bool leads() const { return request_.group().rank() == 0; }
  bool MustStop() const;
  bool Open();
  absl::Status MakeStep(absl::FunctionRef<void()> meanwhile);
  absl::Status FinishStep();
  absl::Status ReportProgress(Clock::time_point now);
  // Counts the report if the job asks for its own interval.
  bool ProgressIsDue(Clock::time_point now);
  bool EvaluationIsDue() const;
  bool CheckpointIsDue(Clock::time_point now);
  // Saves a checkpoint, which is on disk when it returns.
  absl::Status SaveCheckpoint();
  // Copies the checkpoint when the writer has at most `left` tasks, and posts
  // its writing. Without room for a copy does the same as SaveCheckpoint.
  absl::Status SaveBehind(size_t left);
  // Copies the checkpoint. ResourceExhausted when the host has no room for a
  // copy.
  absl::StatusOr<engine::CheckpointWrite> CopyCheckpoint();
  // Returns the result of this attempt's checkpoints after all are written.
  absl::Status WaitForWrites();
  absl::Status Evaluate();
  // Starts the requested profile, if there is one. Called before a step.
  void StartProfile();
  // Counts a step of the profile, and answers after the last one. Called after
  // a step.
  void NoteProfiledStep();
  // Answers with the steps so far. Does nothing without a profile.
  void EndProfile();
  // Reports a profile of the job's schedule, or why there is none.
  void ReportRecorded(absl::StatusOr<v1::RecordedProfile> recorded);
  bool EndStopped();
  bool IsBeingWritten() const;
  bool EndSucceeded();
  void ReportEarlyStop();
  void SayLine(v1::LogLine::Severity severity, std::string text) const;
  bool EndFailed(const absl::Status& status);
  bool End(worker::v1::JobEnded ended);
  // Sends the report if this rank leads.
  void Say(worker::v1::Report report) const;
  worker::v1::Report NewReport() const;

  const worker::v1::StartJob request_;
  Engine* const engine_;
  const ReportSink sink_;
  SideThread* const writer_;
  const std::shared_ptr<engine::AbortSwitch> abort_;
  // State of the runner's writes, which may outlive it.
  struct Written {
    absl::Mutex mutex;
    absl::Status newest ABSL_GUARDED_BY(mutex);
    int left ABSL_GUARDED_BY(mutex) = 0;
    // The longest time from the begin of a checkpoint's write to its end.
    Clock::duration longest ABSL_GUARDED_BY(mutex){0};
  };
  const std::shared_ptr<Written> written_ = std::make_shared<Written>();
  std::unique_ptr<engine::Training> training_;
  struct PendingProfile {
    uint32_t steps = 0;
    uint32_t made = 0;
    bool started = false;
    ProfileSink done;
  };
  std::optional<PendingProfile> profile_;
  ProfileRecorder recorder_;
  worker::v1::StopJob::Reason stop_ = worker::v1::StopJob::REASON_UNSPECIFIED;
  bool ended_ = false;
  bool saves_ = false;
  uint64_t first_step_ = 0;       // first step of this attempt
  uint64_t checkpoint_step_ = 0;  // newest one, saved or copied
  CheckpointPace checkpoint_pace_;
  uint64_t reported_step_ = 0;
  ReportPace report_pace_;
  Clock::time_point reported_at_;
  const Clock::time_point requested_at_ = Clock::now();
  double seconds_per_step_ = 0;  // recent mean; 0: not known yet
  std::chrono::nanoseconds last_step_time_{0};
};

}  // namespace gpupool::server
