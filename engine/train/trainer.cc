#include "engine/train/trainer.h"

#include <utility>

#include "engine/train/training_run.h"

namespace gpupool::engine {

TrainingRun::TrainingRun(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TrainingRun::~TrainingRun() = default;

absl::Status TrainingRun::Step() {
  const absl::Status started = StartStep();
  return started.ok() ? FinishStep() : started;
}

absl::Status TrainingRun::StartStep() { return impl_->StartStep(); }

bool TrainingRun::StepIsDone() { return impl_->StepIsDone(); }

absl::Status TrainingRun::FinishStep() { return impl_->FinishStep(); }

uint64_t TrainingRun::step() const { return impl_->step(); }

uint64_t TrainingRun::total_steps() const {
  return impl_->length().total_steps;
}

uint64_t TrainingRun::steps_per_epoch() const {
  return impl_->length().steps_per_epoch;
}

uint32_t TrainingRun::rows_per_step() const {
  return impl_->batch_size() * impl_->batches_per_step();
}

bool TrainingRun::stopped_early() const { return impl_->history().stopped(); }

uint64_t TrainingRun::evaluated_step() const {
  return impl_->history().state().step;
}

bool TrainingRun::newest_evaluation_is_best() const {
  return impl_->history().newest_is_best();
}

uint32_t TrainingRun::epoch() const {
  if (step() == 0) return 0;
  // The last step of an epoch still belongs to it.
  return static_cast<uint32_t>((step() - 1) / steps_per_epoch() + 1);
}

bool TrainingRun::at_epoch_end() const {
  return step() > 0 && step() % steps_per_epoch() == 0;
}

bool TrainingRun::leads() const { return impl_->leads(); }

void TrainingRun::RequestStop() { impl_->RequestStop(); }

bool TrainingRun::stop_agreed() const { return impl_->stop_agreed(); }

double TrainingRun::loss_scale() const { return impl_->loss_scale(); }

uint64_t TrainingRun::skipped_steps() const { return impl_->skipped_steps(); }

absl::StatusOr<double> TrainingRun::Loss() { return impl_->Loss(); }

absl::StatusOr<v1::Checkpoint> TrainingRun::SaveCheckpoint() {
  return impl_->SaveCheckpoint();
}

absl::StatusOr<std::unique_ptr<CheckpointCopy>> TrainingRun::CopyCheckpoint() {
  return impl_->CopyCheckpoint();
}

uint64_t TrainingRun::checkpoint_bytes() const {
  return impl_->checkpoint_bytes();
}

absl::StatusOr<v1::Evaluation> TrainingRun::Evaluate() {
  return impl_->Evaluate();
}

bool TrainingRun::has_held_out_rows() const {
  return impl_->has_held_out_rows();
}

v1::MemoryUse TrainingRun::memory() const { return impl_->memory(); }

}  // namespace gpupool::engine
