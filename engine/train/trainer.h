// TrainingRun: one attempt of one training job on one device. It owns the
// compiled train and eval programs, the weights and optimizer state, the
// dataset in memory and the sampler.
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
//
// Determinism: two runs with the same spec, dataset, seed, device kind and
// threads hold bit-identical weights after the same step, even if one of them
// was interrupted and resumed from a checkpoint.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/train/checkpoint_copy.h"
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
  uint64_t limit_bytes = 0;            // device memory; 0: the device's limit
  std::optional<RankGroup> group;      // for several devices only
};

class TrainingRun {
 public:
  ~TrainingRun();
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  // Makes one optimizer step on the next batch.
  //   INVALID_ARGUMENT     the loss is not finite, or with loss scaling the
  //                        gradients never are. It is the job's own fault; the
  //                        message names the step. The weights are spoiled, and
  //                        checkpoints are refused from then on
  //   FAILED_PRECONDITION  all steps are done
  //   UNAVAILABLE          another rank is lost or has failed; named
  //   ABORTED              the group's switch was thrown
  //   other                the device's or our fault
  absl::Status Step();
  // The parts of Step, for work that does not wait for the step:
  // - StartStep queues the work of the first batch. If it fails, there is no
  //   step to finish.
  // - StepIsDone continues with the next batches. It returns at once, true when
  //   FinishStep would not wait for long.
  // - FinishStep waits for the step.
  //
  // Nothing else may be called between the first and the last; step() already
  // counts the step then.
  absl::Status StartStep();
  bool StepIsDone();
  absl::Status FinishStep();

  bool done() const { return step() >= total_steps() || stopped_early(); }
  // Returns whether the evaluations so far end the job
  // (training.early_stopping).
  bool stopped_early() const;
  // Returns the steps made since the beginning of the job, including those
  // before a resume.
  uint64_t step() const;
  uint64_t total_steps() const;
  uint64_t steps_per_epoch() const;
  // Returns the rows of one step, in all its batches.
  uint32_t rows_per_step() const;
  // Returns the epoch of the last step made, from 1; 0 before the first step.
  uint32_t epoch() const;
  // Returns whether the last step was the last one of its epoch.
  bool at_epoch_end() const;

  // Returns whether this run has rank 0, which alone writes checkpoints.
  bool leads() const;
  // Asks all ranks to stop after the same step, the next one that this run
  // makes. Its only effect is that stop_agreed() then returns true on all of
  // them.
  void RequestStop();
  // Returns whether a rank had asked before the last step.
  bool stop_agreed() const;

  // Return the scale of the next step's loss, and the number of steps that
  // changed no weight since the beginning of the job. Both are 0 without loss
  // scaling and before the first step.
  double loss_scale() const;
  uint64_t skipped_steps() const;

  // Returns the loss of the last step made by this object, the mean over its
  // batches and all ranks. If the step was skipped and its loss is not finite,
  // returns the loss before. FAILED_PRECONDITION before the first step.
  absl::StatusOr<double> Loss();

  // Writes weights, optimizer state and manifest as blobs. When it returns, the
  // checkpoint survives a power cut. Saving twice at one step is cheap.
  // INVALID_ARGUMENT when a weight is not finite; nothing is written then.
  // FAILED_PRECONDITION on ranks other than 0, which need not wait for rank 0.
  absl::StatusOr<v1::Checkpoint> SaveCheckpoint();
  // Copies a checkpoint into host memory only. Any thread may write it later,
  // even when this run has continued or is gone. Errors as SaveCheckpoint, and
  // RESOURCE_EXHAUSTED when the host has no memory for it.
  absl::StatusOr<std::unique_ptr<CheckpointCopy>> CopyCheckpoint();
  // Returns the bytes that CopyCheckpoint takes.
  uint64_t checkpoint_bytes() const;

  // Returns loss and accuracy over all held-out rows with the current weights,
  // or with their averages if the job keeps those. The result affects the
  // plateau schedule, early stopping and the best checkpoints: call it at the
  // same steps in every attempt, and before SaveCheckpoint. Each rank evaluates
  // a part of the rows with the running statistics of rank 0, and all get the
  // sums. FAILED_PRECONDITION when the spec holds out no rows.
  absl::StatusOr<v1::Evaluation> Evaluate();
  bool has_held_out_rows() const;
  // Returns the step of the newest evaluation, also one before a resume; 0 when
  // there was none.
  uint64_t evaluated_step() const;
  // Returns whether that evaluation is among the training.keep_best_checkpoints
  // best.
  bool newest_evaluation_is_best() const;

  // Returns planned and measured peak bytes of device memory of this run.
  v1::MemoryUse memory() const;

  class Impl;
  explicit TrainingRun(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpupool::engine
