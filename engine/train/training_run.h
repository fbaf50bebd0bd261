// TrainingRun: the Training of the engine. It owns the compiled train and eval
// programs, the weights and optimizer state, the dataset and the sampler.
// Threads and lifetime: as Training.
//
// Determinism: two runs with the same spec, dataset, seed, device kind and
// threads hold bit-identical weights after the same step, even if one of them
// was interrupted and resumed from a checkpoint.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/data/prepare/distributed_sampler.h"
#include "engine/data/table.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/weight_view.h"
#include "engine/train/batch_source.h"
#include "engine/train/checkpoint.h"
#include "engine/train/checkpoint_copy.h"
#include "engine/train/device_context.h"
#include "engine/train/evaluation_history.h"
#include "engine/train/evaluation_metrics.h"
#include "engine/train/input/batch_landing.h"
#include "engine/train/programs.h"
#include "engine/train/rank_link.h"
#include "engine/train/step_profile.h"
#include "engine/train/training.h"

namespace gpupool::engine {

class TrainingRun final : public Training {
 public:
  // Reads the dataset, compiles, allocates, and sets the weights. Errors as
  // Session::StartTraining.
  static absl::StatusOr<std::unique_ptr<TrainingRun>> Create(
      const DeviceContext& device, const TrainingRequest& request);
  ~TrainingRun() override;
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  absl::Status StartStep() override;
  bool StepIsDone() override;
  absl::Status FinishStep() override;
  uint64_t step() const override { return sampler_->position(); }
  uint64_t total_steps() const override { return length_.total_steps; }
  uint64_t steps_per_epoch() const override { return length_.steps_per_epoch; }
  uint32_t rows_per_step() const override {
    return batch_size() * batches_per_step();
  }
  bool stopped_early() const override { return history_.stopped(); }
  void RequestStop() override { stop_requested_ = true; }
  bool stop_agreed() const override { return stop_agreed_; }
  double input_wait() const override { return input_wait_; }
  double loss_scale() const override { return loss_scale_; }
  uint64_t skipped_steps() const override { return skipped_steps_; }
  absl::StatusOr<double> Loss() override;
  std::optional<double> learning_rate() const override {
    return learning_rate_;
  }
  absl::StatusOr<v1::Checkpoint> SaveCheckpoint() override;
  absl::StatusOr<CheckpointWrite> CopyCheckpoint() override;
  uint64_t checkpoint_bytes() const override {
    return weights_->block(false).size() + weights_->block(true).size();
  }
  absl::StatusOr<v1::Evaluation> Evaluate() override;
  bool has_held_out_rows() const override { return eval_ != nullptr; }
  uint64_t evaluated_step() const override { return history_.state().step; }
  bool newest_evaluation_is_best() const override {
    return history_.newest_is_best();
  }
  absl::Status StartProfile(uint32_t steps) override;
  absl::StatusOr<StoredProfile> TakeProfile() override;
  v1::MemoryUse memory() const override;

  // Returns whether this run has rank 0, which alone writes checkpoints.
  bool leads() const { return rank() == 0; }
  const WeightStore& weights() const { return *weights_; }

 private:
  // A step between StartStep and FinishStep, and the batch that runs.
  struct StepInFlight {
    // The rows of all its batches; invalid during the last one.
    absl::Span<const uint32_t> rows;
    double rate = 0;
    bool is_short = false;  // data.drop_last: false
    uint32_t batch = 0;     // from 0
    double sum = 0;         // losses of the earlier batches
    absl::Status failed;    // when set, no batch runs
  };

  TrainingRun(const DeviceContext& device, const TrainingRequest& request);

  absl::Status Open();
  absl::Status JoinGroup();
  absl::Status LoadData();
  absl::Status MakeExecutors();
  absl::Status StartFresh();
  absl::Status Resume();
  absl::Status MakeSampler();
  // Returns the rows of a batch, over all ranks.
  uint32_t batch_size() const { return request_.spec.training().batch_size(); }
  uint32_t batches_per_step() const {
    return std::max(request_.spec.training().accumulate_batches(), 1u);
  }
  int rank() const { return link_ == nullptr ? 0 : link_->rank(); }
  uint32_t ranks() const {
    return link_ == nullptr ? 1 : static_cast<uint32_t>(link_->size());
  }
  // Returns the seed of random numbers in the model. It differs between ranks,
  // so that they drop out different elements.
  uint64_t ModelSeed() const;
  const Table& evaluated_table() const {
    return validation_.has_value() ? *validation_ : table_;
  }
  bool AtLastBatch() const {
    return in_flight_->batch + 1 == batches_per_step();
  }
  // Returns whether these rows of a step are fewer than those of others.
  bool IsShort(absl::Span<const uint32_t> step_rows) const {
    return step_rows.size() < batch_size() / ranks() * batches_per_step();
  }
  // Returns the executor of the batch that runs.
  Executor& executor() {
    if (!AtLastBatch()) return *accumulate_;
    return in_flight_->is_short ? *short_step_ : *train_;
  }
  // Sets up the batch and queues its work.
  absl::Status StartBatch();
  // Waits for the batch and starts the next one. Must not be called at the last
  // one.
  absl::Status NextBatch();
  // Waits for the last batch. Returns the mean of the batches' losses over all
  // ranks.
  absl::StatusOr<double> FinishBatches();
  // Returns the sums over all held-out rows, of which this rank evaluates a
  // part, and adds their metrics.
  absl::StatusOr<EvaluationSums> SumHeldOutRows(EvaluationMetrics& metrics);
  // Tells the other ranks of an error that only this one has.
  absl::Status Share(absl::Status error);
  // Returns the number, from 0, of the batch that runs.
  uint64_t BatchNumber() const {
    return (step() - 1) * batches_per_step() + in_flight_->batch;
  }
  absl::Span<const uint32_t> BatchRows(absl::Span<const uint32_t> step_rows,
                                       uint32_t batch) const {
    const size_t size = step_rows.size() / batches_per_step();
    return step_rows.subspan(batch * size, size);
  }
  // Copies the rows of the batch that runs into its program.
  absl::Status BringBatch();
  // Sends a batch to the landing.
  absl::Status SendBatch(uint64_t number, absl::Span<const uint32_t> rows);
  // Sends the batch after the one that runs, if there is one.
  absl::Status SendNextBatch();
  // Reads the state of loss scaling after a step of that program. Returns
  // whether the step was skipped.
  bool NoteScale(const Executor& program);
  // Checks that the loss of a step and the loss scale are valid.
  absl::Status CheckStep(double loss, bool skipped) const;
  // Returns an error when the job has made steps and skipped all of them.
  absl::Status CheckAnyStepCounted() const;
  absl::Status NotFinite(const std::string& what) const;
  Manifest NewManifest() const;
  // Marks the run as spoiled when a weight is not finite.
  absl::StatusOr<std::unique_ptr<CheckpointCopy>> TakeState(
      absl::StatusOr<WeightView> (*take)(const WeightStore&));

  const DeviceContext device_;
  const TrainingRequest request_;
  MemoryHolder holder_;
  TrainingLength length_;
  uint64_t planned_peak_bytes_ = 0;
  Table table_;
  std::optional<Table> validation_;      // if the job has such a dataset
  std::vector<uint32_t> held_out_rows_;  // of evaluated_table()
  std::vector<uint32_t> training_rows_;  // moved to the sampler
  std::shared_ptr<const ModelSource> source_;
  std::vector<PersistentSpec> persistents_;
  std::vector<FedInput> fed_;  // of both tables
  std::vector<TrainedOutput> outputs_;
  int64_t eval_batch_ = 0;
  std::unique_ptr<RankLink> link_;  // null with one device
  std::optional<DistributedSampler> sampler_;
  std::optional<WeightStore> weights_;
  Allocation arena_;
  // The landing of the next batch; null: rows are copied as part of a run.
  std::unique_ptr<BatchLanding> landing_;
  std::unique_ptr<Executor> train_;
  std::unique_ptr<Executor> accumulate_;
  std::unique_ptr<Executor> short_step_;
  std::unique_ptr<Executor> eval_;
  std::unique_ptr<BatchSource> batches_;
  double input_wait_ = 0;  // seconds
  std::optional<StepInFlight> in_flight_;
  std::unique_ptr<StepProfile> profile_;  // null: nothing is timed
  EvaluationHistory history_;
  std::optional<double> loss_;           // the last step's
  std::optional<double> learning_rate_;  // likewise
  bool stop_requested_ = false;
  bool stop_agreed_ = false;
  double loss_scale_ = 0;  // the next step's; 0: no loss scaling
  uint64_t skipped_steps_ = 0;
  absl::Status spoiled_;  // why the weights can no longer be used
};

}  // namespace gpupool::engine
