// Training: one attempt of one training job on one device. TrainingRun
// implements it. The worker uses only this interface, so that its tests script
// a training of their own.
//
// A job with several devices has a run on each of them. The runs are ranks of a
// group that take equal parts of every batch and hold the same weights. All
// ranks make the same calls of Step and Evaluate in the same order, and each
// such call waits for the others. If devices run steps of several groups, they
// must therefore all run them in the same order. A rank that fails ends the
// group: the others get UNAVAILABLE from their next call, with its number and
// reason.
//
// Made by Session::StartTraining; must be destroyed before its Session. Used
// from the session's compute thread only, except for memory(), which any thread
// may call.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/train/rank_group.h"
#include "gpupool/v1/dataset.pb.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {

struct TrainingRequest {
  uint64_t job_id = 0;
  uint32_t attempt = 0;
  v1::JobSpec spec;
  // Its files are blobs of the session. Without files, random rows of its form
  // take their place (RandomTable).
  v1::Dataset dataset;
  v1::Dataset validation;  // as dataset, if spec.data().validation() names one
  std::string resume_manifest_sha256;  // empty: from the start
  uint64_t limit_bytes = 0;            // device memory; 0: the device's limit
  std::optional<RankGroup> group;      // for several devices only
};

// Writes a checkpoint that was copied to host memory. Any thread may call it,
// once, also when the training is gone. When it returns, the checkpoint
// survives a power cut. RESOURCE_EXHAUSTED when the disk is full; INTERNAL for
// other errors of the disk.
using CheckpointWrite = std::function<absl::StatusOr<v1::Checkpoint>()>;

// A blob with the times of the nodes of some steps, as Chrome's trace events.
struct StoredProfile {
  std::string sha256;
  uint64_t bytes = 0;
};

class Training {
 public:
  virtual ~Training() = default;

  // Make one optimizer step on the next batch, in three parts, for work that
  // does not wait for the step:
  // - StartStep queues the work of the first batch. If it fails, there is no
  //   step to finish.
  // - StepIsDone continues with the next batches. It returns at once, true when
  //   FinishStep would not wait for long.
  // - FinishStep waits for the step.
  //
  // Nothing else may be called between the first and the last; step() already
  // counts the step then.
  //   INVALID_ARGUMENT     the loss is not finite, or with loss scaling the
  //                        gradients never are. It is the job's own fault; the
  //                        message names the step. The weights are spoiled, and
  //                        checkpoints are refused from then on
  //   FAILED_PRECONDITION  all steps are done
  //   UNAVAILABLE          another rank is lost or has failed; named
  //   ABORTED              the group's switch was thrown
  //   other                the device's or our fault
  virtual absl::Status StartStep() = 0;
  virtual bool StepIsDone() = 0;
  virtual absl::Status FinishStep() = 0;
  // Makes a whole step.
  absl::Status Step() {
    const absl::Status started = StartStep();
    return started.ok() ? FinishStep() : started;
  }

  bool done() const { return step() >= total_steps() || stopped_early(); }
  // Returns whether the evaluations so far end the job
  // (training.early_stopping).
  virtual bool stopped_early() const = 0;
  // Returns the steps made since the beginning of the job, including those
  // before a resume.
  virtual uint64_t step() const = 0;
  virtual uint64_t total_steps() const = 0;
  virtual uint64_t steps_per_epoch() const = 0;
  // Returns the rows of one step, in all its batches. With data.drop_last false
  // the last step of an epoch may have fewer.
  virtual uint32_t rows_per_step() const = 0;
  // Returns the epoch of the last step made, from 1; 0 before the first step.
  uint32_t epoch() const {
    if (step() == 0) return 0;
    return static_cast<uint32_t>((step() - 1) / steps_per_epoch() + 1);
  }
  // Returns whether the last step was the last one of its epoch.
  bool at_epoch_end() const {
    return step() > 0 && step() % steps_per_epoch() == 0;
  }

  // Asks all ranks to stop after the same step, the next one that this run
  // makes. Its only effect is that stop_agreed() then returns true on all of
  // them.
  virtual void RequestStop() = 0;
  // Returns whether a rank had asked before the last step.
  virtual bool stop_agreed() const = 0;

  // Return the scale of the next step's loss, and the number of steps that
  // changed no weight since the beginning of the job. Both are 0 without loss
  // scaling and before the first step.
  virtual double loss_scale() const = 0;
  virtual uint64_t skipped_steps() const = 0;

  // Returns the seconds for which steps of this object waited for the rows of
  // their batches. Rows that were made while the device worked do not count,
  // unless it ended meanwhile.
  virtual double input_wait() const = 0;

  // Returns the loss of the last step made by this object, the mean over its
  // batches and all ranks. If the step was skipped and its loss is not finite,
  // returns the loss before. FAILED_PRECONDITION before the first step.
  virtual absl::StatusOr<double> Loss() = 0;

  // Returns the learning rate of the last step made by this object, before the
  // factors of training.groups. Nothing before the first step.
  virtual std::optional<double> learning_rate() const = 0;

  // Writes weights, optimizer state and manifest as blobs. When it returns, the
  // checkpoint survives a power cut. Saving twice at one step is cheap.
  // INVALID_ARGUMENT when a weight is not finite; nothing is written then.
  // FAILED_PRECONDITION on ranks other than 0, which need not wait for rank 0.
  virtual absl::StatusOr<v1::Checkpoint> SaveCheckpoint() = 0;
  // Copies a checkpoint into host memory only. Any thread may write it later,
  // even when this run has continued or is gone. Errors as SaveCheckpoint, and
  // RESOURCE_EXHAUSTED when the host has no memory for it.
  virtual absl::StatusOr<CheckpointWrite> CopyCheckpoint() = 0;
  // Returns the bytes of host memory that CopyCheckpoint takes.
  virtual uint64_t checkpoint_bytes() const = 0;

  // Returns loss and accuracy over all held-out rows with the current weights,
  // or with their averages if the job keeps those. The result affects the
  // plateau schedule, early stopping and the best checkpoints: call it at the
  // same steps in every attempt, and before SaveCheckpoint. Each rank evaluates
  // a part of the rows with the running statistics of rank 0, and all get the
  // sums. FAILED_PRECONDITION when the spec has neither held-out rows nor a
  // validation set.
  virtual absl::StatusOr<v1::Evaluation> Evaluate() = 0;
  virtual bool has_held_out_rows() const = 0;
  // Returns the step of the newest evaluation, also one before a resume; 0 when
  // there was none.
  virtual uint64_t evaluated_step() const = 0;
  // Returns whether that evaluation is among the training.keep_best_checkpoints
  // best.
  virtual bool newest_evaluation_is_best() const = 0;

  // Times each node of the next steps, at most `steps` of them. These steps are
  // slower and have the same results; inference waits for them. Forgets what
  // was timed before, also on an error. Must not be called within a step.
  //   INVALID_ARGUMENT  so many steps have more times than a trace may hold;
  //                     the text says how many steps it may hold
  //   UNIMPLEMENTED     the job runs on several devices
  virtual absl::Status StartProfile(uint32_t steps) = 0;
  // Ends the timing and stores the times as a blob.
  virtual absl::StatusOr<StoredProfile> TakeProfile() = 0;

  // Returns planned and measured peak bytes of device memory of this run.
  virtual v1::MemoryUse memory() const = 0;
};

}  // namespace gpupool::engine
