// What the evaluations of a job so far mean for its course: whether it ends
// early, how far a plateau schedule has lowered the rate, and which losses are
// the best. A pure function of the losses in their order, so a resumed run
// that restores the state goes on as one that was never interrupted.
// Not thread-safe.
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
  uint64_t step = 0;           // of the newest evaluation; 0: there was none
  std::optional<double> loss;  // of it, where it is finite
  // Early stopping: the loss to beat and the evaluations that did not.
  std::optional<double> stopping_best;
  uint32_t stalled = 0;
  // Plateau schedule, as torch.optim.lr_scheduler.ReduceLROnPlateau.
  std::optional<double> plateau_best;
  uint32_t plateau_stalled = 0;
  uint32_t plateau_cooldown = 0;
  uint32_t plateau_reductions = 0;
  // The lowest losses, rising; as many as checkpoints are kept.
  std::vector<double> best_losses;

  friend bool operator==(const EvaluationState&,
                         const EvaluationState&) = default;
};

// As a JSON object, every number exactly.
std::string ToJson(const EvaluationState& state);
// InvalidArgument names the field that is wrong.
absl::StatusOr<EvaluationState> ParseEvaluationState(absl::string_view json);

class EvaluationHistory {
 public:
  // `training` must outlive the history.
  explicit EvaluationHistory(const v1::TrainingSpec* training)
      : training_(training) {}

  // The held-out loss of the weights after `step` steps. A second evaluation
  // of the same step does not count. A loss that is not finite is no
  // improvement.
  void Add(uint64_t step, double loss);

  // Whether early stopping ends the job now.
  bool stopped() const;
  // Whether the newest evaluation is one of the
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
