// The compute thread: everything that the engine does, one piece at a time.
//   * Inference goes first: all waiting slots are answered before each training
//     step and, on devices that work by themselves, also during it. Everything
//     else waits for the step's end.
//   * Jobs of the same device take turns, one step each.
//   * With nothing to do the thread sleeps on the ring's doorbell and its own.
//
// Thread-safety: Run is the compute thread. Any thread may call the methods
// under "any thread". Only tasks given to Post may call those under "compute
// thread".
//
// Invariants
//  1. No slot waits for longer than one piece of work: a step, a checkpoint,
//     an evaluation or one posted task.
//  2. Under full inference load training still makes one step per
//     2 * kMaxSlotsPerTurn slots: those before the step and those beside it.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "server/ipc/slot_ring_server.h"
#include "server/ipc/unique_fd.h"
#include "server/worker/engine.h"
#include "server/worker/job_runner.h"
#include "server/worker/served_models.h"
#include "server/worker/side_thread.h"

namespace gpupool::server {

inline constexpr int kMaxSlotsPerTurn = 256;

// Work of the compute thread, as of its last turn.
struct TurnstileView {
  std::vector<worker::v1::RunningAttempt> running;
  // Attempts that have left the device and whose checkpoints are being written.
  std::vector<worker::v1::RunningAttempt> saving;
  std::vector<uint64_t> loaded_version_ids;
  uint64_t step_count = 0;
  double step_seconds_total = 0;
  std::chrono::nanoseconds busy_time{0};  // since Run began
};

class Turnstile {
 public:
  using Clock = std::chrono::steady_clock;

  // `engine` must outlive the turnstile. `sink` is called on the compute thread
  // and, for checkpoints, on another one. `checkpoint_interval`: see
  // JobRunner::Environment.
  Turnstile(Engine* engine, JobRunner::ReportSink sink,
            Clock::duration checkpoint_interval = Clock::duration::zero());

  // Runs until Drain has ended the last job, or until a fault of the device has
  // ended the engine. Returns only after pending checkpoints are written; then
  // `sink` is not called any more.
  void Run();

  // ---- any thread
  // Runs `task` on the compute thread before its next step.
  void Post(std::function<void()> task);
  // Shows the attempt in view() until StartJob has taken or refused it. It may
  // wait for long behind other work, and the daemon must not take it for lost
  // meanwhile.
  void Announce(uint64_t job_id, uint32_t attempt);
  // Ends the wait of an announced, unended attempt for the other ranks of its
  // group. StopJob follows.
  void AbortGroup(uint64_t job_id, uint32_t attempt);
  // Ends all jobs with a checkpoint, then ends Run.
  void Drain();
  TurnstileView view() const;

  // ---- compute thread
  // Replaces the ring; requests of the former one are dropped. Registers the
  // ring's memory with the engine. Where that fails, requests are copied once
  // more on their way.
  void SetRing(std::unique_ptr<SlotRingServer> ring);
  // Starts the job. Idempotent for the running attempt. FailedPrecondition
  // while another attempt of the job runs, Aborted when that one is newer,
  // Unavailable while draining.
  absl::Status StartJob(worker::v1::StartJob request);
  // Stops the job. NotFound when it does not run here, Aborted when another
  // attempt does.
  absl::Status StopJob(const worker::v1::StopJob& request);
  // Calls JobRunner::Profile. `done` gets NotFound and Aborted as from StopJob.
  void ProfileJob(const worker::v1::ProfileJob& request,
                  JobRunner::ProfileSink done);
  ServedModels& models() { return models_; }
  // Returns whether a job trains or a version is loaded.
  bool has_work() const { return !jobs_.empty() || !models_.ids().empty(); }

 private:
  bool RunOneTask();
  // Answers at most `most` slots. Returns how many it answered.
  int ServeSlots(int most);
  void AdvanceOneJob();
  // Lets the attempt write its checkpoint. It stays in the view until the
  // result has been reported.
  void LetSave(std::shared_ptr<JobRunner> job);
  void WaitForWork();
  absl::Status TakeJob(worker::v1::StartJob request);
  // Returns the attempt's runner. NotFound when the job does not run here,
  // Aborted when another attempt does.
  absl::StatusOr<JobRunner*> FindJob(uint64_t job_id, uint32_t attempt) const;
  std::shared_ptr<engine::AbortSwitch> AbortOf(uint64_t job_id,
                                               uint32_t attempt) const;
  void ForgetAbort(uint64_t job_id, uint32_t attempt);
  void UpdateView();
  void Wake();

  Engine* const engine_;
  const JobRunner::ReportSink sink_;
  const Clock::duration checkpoint_interval_;
  SideThread writer_{"checkpoints"};
  const UniqueFd wake_;
  ServedModels models_;
  std::unique_ptr<SlotRingServer> ring_;
  // Registered with the engine; may be null.
  std::shared_ptr<void> ring_memory_;
  std::deque<std::unique_ptr<JobRunner>> jobs_;  // the front is the next to run
  bool draining_ = false;

  mutable absl::Mutex mutex_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  TurnstileView view_ ABSL_GUARDED_BY(mutex_);
  std::vector<worker::v1::RunningAttempt> announced_ ABSL_GUARDED_BY(mutex_);
  // Aborts of attempts that were announced or run here, by job and number.
  std::map<std::pair<uint64_t, uint32_t>, std::shared_ptr<engine::AbortSwitch>>
      aborts_ ABSL_GUARDED_BY(mutex_);
  Clock::time_point started_ ABSL_GUARDED_BY(mutex_);
  std::chrono::nanoseconds idle_time_ ABSL_GUARDED_BY(mutex_){0};
  Clock::time_point idle_since_ ABSL_GUARDED_BY(mutex_);  // max: not idle
};

}  // namespace gpupool::server
