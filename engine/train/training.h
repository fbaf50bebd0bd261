// Training: one attempt of one training job on one device. TrainingRun is the
// real one; the worker is written against this interface, so that its tests
// script a training of their own.
//
// A job with several devices has one on each of them: ranks of a group that
// take equal parts of every batch and hold the same weights. All ranks make
// the same calls of Step and Evaluate in the same order, and each such call
// waits for the others. So where a device runs steps of several groups, all
// devices must run them in the same order. A rank that fails ends the group:
// the others get UNAVAILABLE from their next call, with its name and reason.
//
// Made by Session::StartTraining; must be destroyed before its Session. Used
// from the session's compute thread only, but memory() may be called from any
// thread.
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
  v1::Dataset dataset;                 // its files are blobs of the session
  std::string resume_manifest_sha256;  // empty: from the start
  uint64_t limit_bytes = 0;            // of device memory; 0: the device's
  std::optional<RankGroup> group;      // with several devices only
};

// Writes a checkpoint that was copied to host memory; once, from any thread,
// also when its training is gone. When it returns, the checkpoint survives a
// power cut. ResourceExhausted when the disk is full; Internal for its other
// errors.
using CheckpointWrite = std::function<absl::StatusOr<v1::Checkpoint>()>;

// Where the time of some steps went, as a blob: Chrome's trace events.
struct StoredProfile {
  std::string sha256;
  uint64_t bytes = 0;
};

class Training {
 public:
  virtual ~Training() = default;

  // One optimizer step on the next batch, in three parts, for work that does
  // not wait for the step: StartStep queues the work of its first batch.
  // StepIsDone goes on with the next ones and returns at once, true when
  // FinishStep would not wait for long. Between the first and the last nothing
  // else is called; step() counts the step then. After an error of StartStep
  // there is no step to finish.
  //   InvalidArgument     the loss is not finite, or with loss scaling the
  //                       gradients never are: the job's own fault, the
  //                       message names the step; the weights are spoiled,
  //                       checkpoints are refused from here on
  //   FailedPrecondition  all steps are done
  //   Unavailable         another rank is lost or has failed; named
  //   Aborted             the group's switch was thrown
  //   other               the device's or our fault
  virtual absl::Status StartStep() = 0;
  virtual bool StepIsDone() = 0;
  virtual absl::Status FinishStep() = 0;
  // A whole step.
  absl::Status Step() {
    const absl::Status started = StartStep();
    return started.ok() ? FinishStep() : started;
  }

  // Steps made since the beginning of the job, those before a resume counted.
  virtual uint64_t step() const = 0;
  virtual uint64_t total_steps() const = 0;
  virtual uint64_t steps_per_epoch() const = 0;
  // Rows of one step: those of all its batches.
  virtual uint32_t rows_per_step() const = 0;
  // Whether the evaluations so far end the job (training.early_stopping).
  virtual bool stopped_early() const = 0;
  bool done() const { return step() >= total_steps() || stopped_early(); }
  // The epoch of the last step made, from 1; 0 before the first step.
  uint32_t epoch() const {
    if (step() == 0) return 0;
    return static_cast<uint32_t>((step() - 1) / steps_per_epoch() + 1);
  }
  // Whether the last step was the last one of its epoch.
  bool at_epoch_end() const {
    return step() > 0 && step() % steps_per_epoch() == 0;
  }

  // Asks all ranks to stop after the same step: the next one that this run
  // makes. Nothing happens but that stop_agreed() is then true on all of them.
  virtual void RequestStop() = 0;
  // Whether a rank had asked before the last step.
  virtual bool stop_agreed() const = 0;

  // The scale of the next step's loss, and how many steps changed no weight
  // since the beginning of the job; 0 without loss scaling and before the
  // first step.
  virtual double loss_scale() const = 0;
  virtual uint64_t skipped_steps() const = 0;

  // Loss of the last step made by this object, the mean over its batches and
  // all ranks; where the step was skipped and its loss is not finite, of the
  // last one before. FailedPrecondition before the first step.
  virtual absl::StatusOr<double> Loss() = 0;

  // Writes weights, optimizer state and manifest as blobs. When it returns,
  // the checkpoint survives a power cut. Saving twice at one step is cheap.
  // InvalidArgument when a weight is not finite: nothing is written then.
  // FailedPrecondition on ranks that do not lead; the others need not wait.
  virtual absl::StatusOr<v1::Checkpoint> SaveCheckpoint() = 0;
  // As SaveCheckpoint, but only into host memory: somebody else may write it,
  // on any thread, while this run goes on or is gone. ResourceExhausted when
  // the host has no memory for it.
  virtual absl::StatusOr<CheckpointWrite> CopyCheckpoint() = 0;
  // Returns the bytes of host memory that CopyCheckpoint takes.
  virtual uint64_t checkpoint_bytes() const = 0;

  // Loss and accuracy over all held-out rows with the weights as they are, or
  // with their averages where the job keeps those. It counts for the plateau
  // schedule, early stopping and the best checkpoints: call it at the same
  // steps in every attempt, and before SaveCheckpoint. Each rank evaluates a
  // part of the rows, with the running statistics of rank 0; all get the sums.
  // FailedPrecondition when the spec holds no rows out.
  virtual absl::StatusOr<v1::Evaluation> Evaluate() = 0;
  virtual bool has_held_out_rows() const = 0;
  // The step of the newest evaluation, those before a resume counted; 0 when
  // there was none.
  virtual uint64_t evaluated_step() const = 0;
  // Whether that evaluation is among the training.keep_best_checkpoints best.
  virtual bool newest_evaluation_is_best() const = 0;

  // Times each node of the steps that follow, at most `steps` of them. They are
  // slower and have the same results; inference waits for them. What was timed
  // before is forgotten. Not within a step.
  //   InvalidArgument  so many steps have more times than a trace may hold; the
  //                    text says how many steps it may hold
  //   Unimplemented    the job runs on several devices
  virtual absl::Status StartProfile(uint32_t steps) = 0;
  // Ends that, and stores what was timed as a blob.
  virtual absl::StatusOr<StoredProfile> TakeProfile() = 0;

  // Planned and measured peak bytes of device memory of this run.
  virtual v1::MemoryUse memory() const = 0;
};

}  // namespace gpupool::engine
