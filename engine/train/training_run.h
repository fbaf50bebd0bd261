// The inside of TrainingRun: what the session needs to make one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/data/sampler.h"
#include "engine/data/table.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/weight_view.h"
#include "engine/train/checkpoint.h"
#include "engine/train/device_context.h"
#include "engine/train/evaluation_history.h"
#include "engine/train/programs.h"
#include "engine/train/trainer.h"

namespace gpupool::engine {

class TrainingRun::Impl {
 public:
  // Reads the dataset, compiles, allocates, and sets the weights. Status
  // codes as Session::StartTraining.
  static absl::StatusOr<std::unique_ptr<Impl>> Create(
      const DeviceContext& device, const TrainingRequest& request);

  absl::Status Step();
  absl::StatusOr<v1::Checkpoint> SaveCheckpoint();
  absl::StatusOr<v1::Evaluation> Evaluate();
  absl::StatusOr<double> Loss() const;
  v1::MemoryUse memory() const;

  uint64_t step() const { return sampler_->position(); }
  const TrainingLength& length() const { return length_; }
  uint32_t batch_size() const { return request_.spec.training().batch_size(); }
  uint32_t batches_per_step() const {
    return std::max(request_.spec.training().accumulate_batches(), 1u);
  }
  const EvaluationHistory& history() const { return history_; }
  bool has_held_out_rows() const { return eval_ != nullptr; }

 private:
  Impl(const DeviceContext& device, const TrainingRequest& request);

  absl::Status LoadData();
  absl::Status MakeExecutors();
  absl::Status StartFresh();
  absl::Status Resume();
  absl::Status CheckManifest(const Manifest& manifest) const;
  // Sets up one batch of the step, counted from 0, and runs it; its loss.
  absl::StatusOr<double> RunBatch(absl::Span<const uint32_t> rows,
                                  uint32_t batch, double rate);
  // Copies rows and their labels into a program's inputs.
  void FillBatch(const Executor& executor, absl::Span<const uint32_t> rows);
  absl::Status NotFinite(const std::string& what) const;
  // Spoils the run when a weight is not finite.
  absl::Status CheckFinite(const WeightView& weights);

  const DeviceContext device_;
  const TrainingRequest request_;
  MemoryHolder holder_;
  TrainingLength length_;
  uint64_t planned_peak_bytes_ = 0;
  Table table_;
  std::vector<uint32_t> held_out_rows_;
  std::vector<uint32_t> training_rows_;  // until the sampler has them
  std::shared_ptr<const ModelSource> source_;
  std::vector<PersistentSpec> persistents_;
  std::string input_name_;
  std::vector<float> features_;  // of a batch, before they are converted
  int64_t eval_batch_ = 0;
  std::optional<Sampler> sampler_;
  std::optional<WeightStore> weights_;
  Allocation arena_;
  std::unique_ptr<Executor> train_;
  std::unique_ptr<Executor> accumulate_;
  std::unique_ptr<Executor> eval_;
  EvaluationHistory history_;
  std::optional<double> loss_;  // of the last step
  absl::Status spoiled_;        // why the weights can no longer be used
};

}  // namespace gpupool::engine
