// The effect of a job's evaluations on its course: whether it ends early, how
// far a plateau schedule has lowered the rate, and which losses are the best.
// It is a pure function of the losses in their order, so a resumed run that
// restores the state continues like an uninterrupted one. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpupool::v1 {
class TrainingSpec;
}  // namespace gpupool::v1

namespace gpupool::engine {

struct EvaluationState {
  uint64_t step = 0;           // step of the newest evaluation; 0: none
  std::optional<double> loss;  // its loss, if that is finite
  // Early stopping: the loss to beat, and the number of evaluations since that
  // did not beat it.
  std::optional<double> stopping_best;
  uint32_t stalled = 0;
  // Plateau schedule, as in torch.optim.lr_scheduler.ReduceLROnPlateau.
  std::optional<double> plateau_best;
  uint32_t plateau_stalled = 0;
  uint32_t plateau_cooldown = 0;
  uint32_t plateau_reductions = 0;
  // The lowest losses in rising order, as many as checkpoints are kept.
  std::vector<double> best_losses;

  friend bool operator==(const EvaluationState&,
                         const EvaluationState&) = default;
};

// Returns a JSON object that holds every number exactly.
std::string ToJson(const EvaluationState& state);
// Parses ToJson's text. INVALID_ARGUMENT names the wrong field.
absl::StatusOr<EvaluationState> ParseEvaluationState(absl::string_view json);

class EvaluationHistory {
 public:
  // `training` must outlive the history.
  explicit EvaluationHistory(const v1::TrainingSpec* training)
      : training_(training) {}

  // Adds the held-out loss of the weights after `step` steps. A second
  // evaluation of the same step is ignored. A loss that is not finite is no
  // improvement.
  void Add(uint64_t step, double loss);

  // Returns whether early stopping ends the job now.
  bool stopped() const;
  // Returns whether the newest evaluation is among the
  // training.keep_best_checkpoints best.
  bool newest_is_best() const;
  uint32_t reductions() const { return state_.plateau_reductions; }

  const EvaluationState& state() const { return state_; }
  void Restore(EvaluationState state) { state_ = std::move(state); }

 private:
  void AddToStopping(double loss);
  void AddToPlateau(double loss);
  void AddToBest(double loss);

  const v1::TrainingSpec* training_;
  EvaluationState state_;
};

}  // namespace gpupool::engine
