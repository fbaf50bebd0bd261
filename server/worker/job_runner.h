// One attempt of a training job, step by step: what to report, when to save a
// checkpoint, when to evaluate, and how it ends. It never blocks for longer
// than one step, checkpoint or evaluation takes.
//
// Checkpoints on the way are copied to host memory and written behind the
// training, which goes on; an attempt that is told to save and stop leaves the
// device as soon as its checkpoint is copied (JobEnded.SAVING). A checkpoint is
// reported when it is on disk. Before one on the way is copied the ones before
// it must be written, so that a job saves the same steps however fast the disk
// is; the copy of a stop waits until at most one other is left, so that the
// host holds two. Training stands still for the disk where the host has no room
// for a copy, and for the last checkpoint of an attempt that succeeds.
//
// In a group all ranks do the same, but only rank 0 saves checkpoints and
// reports, except for its end, which every rank reports. A drain ends all of
// them after the same step, whichever of them was told.
//
// Thread-safety: the compute thread; EndSaved: the writer's, nobody else using
// the runner any more. Owns the training.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "server/worker/engine.h"
#include "server/worker/side_thread.h"

namespace gpupool::server {

class JobRunner {
 public:
  using Clock = std::chrono::steady_clock;
  // Takes a report that has everything but its sequence. Called on the compute
  // thread and on the writer's.
  using ReportSink = std::function<void(worker::v1::Report)>;

  // `engine` must outlive the runner. Once `abort` has been used the job ends
  // as one that was cancelled. `engine` and `writer` outlive all writes.
  JobRunner(worker::v1::StartJob request, Engine* engine, ReportSink sink,
            SideThread* writer,
            std::shared_ptr<engine::AbortSwitch> abort = nullptr);

  // Does the next piece of work: opens the training, or makes one step with
  // what is due after it (reports, checkpoint, evaluation), or ends the job.
  // False once the job has ended; JobEnded has been reported then. `meanwhile`
  // is called again and again while the device is at the step.
  bool Advance(absl::FunctionRef<void()> meanwhile = [] {});

  // Ends the job at the next Advance: without a checkpoint (CANCELLED) or
  // after saving one (DRAIN). In a group a drain takes effect after the step
  // on which the ranks agree.
  void Stop(worker::v1::StopJob::Reason reason);

  // Advance has returned false, the training is gone, and what remains is
  // EndSaved, which the writer's thread must call after what was posted there.
  bool saves() const { return saves_; }
  // Reports how the attempt ended now that its checkpoint is on disk, or is
  // not.
  void EndSaved();

  // Has the next `steps` steps timed. `done` gets the trace after the last of
  // them, or when the job has ended after some of them; FailedPrecondition when
  // it ends before a step was made, or when a profile is being made already. It
  // is called once, on the compute thread, unless a fault of the device ends
  // the worker before.
  using ProfileSink =
      std::function<void(absl::StatusOr<worker::v1::ProfileReply>)>;
  void Profile(uint32_t steps, ProfileSink done);

  uint64_t job_id() const { return request_.job_id(); }
  uint32_t attempt() const { return request_.attempt(); }
  uint64_t step() const;
  // Time spent in the last Step; zero when the last Advance made none.
  std::chrono::nanoseconds last_step_time() const { return last_step_time_; }

 private:
  bool in_group() const { return request_.has_group(); }
  bool leads() const { return request_.group().rank() == 0; }
  bool MustStop() const;
  bool Open();
  absl::Status MakeStep(absl::FunctionRef<void()> meanwhile);
  absl::Status FinishStep();
  absl::Status ReportProgress(Clock::time_point now);
  bool ProgressIsDue(Clock::time_point now) const;
  bool EvaluationIsDue() const;
  bool CheckpointIsDue() const;
  // When it returns, the checkpoint is on disk.
  absl::Status SaveCheckpoint();
  // Copies it when the writer has at most `left` tasks, and has the copy
  // written. Where there is no room for a copy, as SaveCheckpoint.
  absl::Status SaveBehind(size_t left);
  // ResourceExhausted where the host has no room for a copy.
  absl::StatusOr<engine::CheckpointWrite> CopyCheckpoint();
  // What became of this attempt's checkpoints after all are written.
  absl::Status WaitForWrites();
  absl::Status Evaluate();
  // Begins what was asked for; before a step.
  void StartProfile();
  // Answers once the steps are made; after a step.
  void NoteProfiledStep();
  // Answers with what there is; does nothing when nobody has asked.
  void EndProfile();
  bool EndStopped();
  bool IsBeingWritten() const;
  bool EndSucceeded();
  void ReportEarlyStop();
  bool EndFailed(const absl::Status& status);
  bool End(worker::v1::JobEnded ended);
  // Of a rank that leads.
  void Say(worker::v1::Report report) const;
  worker::v1::Report NewReport() const;

  const worker::v1::StartJob request_;
  Engine* const engine_;
  const ReportSink sink_;
  SideThread* const writer_;
  const std::shared_ptr<engine::AbortSwitch> abort_;
  // What the runner knows of its writes, which may outlive it.
  struct Written {
    absl::Mutex mutex;
    absl::Status newest ABSL_GUARDED_BY(mutex);
    int left ABSL_GUARDED_BY(mutex) = 0;
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
  worker::v1::StopJob::Reason stop_ = worker::v1::StopJob::REASON_UNSPECIFIED;
  bool ended_ = false;
  bool saves_ = false;
  uint64_t first_step_ = 0;       // where this attempt began
  uint64_t checkpoint_step_ = 0;  // of the newest one, saved or copied
  uint64_t reported_step_ = 0;
  Clock::time_point reported_at_;
  const Clock::time_point requested_at_ = Clock::now();
  double seconds_per_step_ = 0;  // lately; 0: not known yet
  std::chrono::nanoseconds last_step_time_{0};
};

}  // namespace gpupool::server
