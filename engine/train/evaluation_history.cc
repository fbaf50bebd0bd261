#include "engine/train/evaluation_history.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostBest = 1 << 20;

absl::Status BrokenHistory(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("the evaluations of the checkpoint: ", what));
}

// Returns the number of that key; 0 when it is absent.
absl::StatusOr<uint64_t> Count(const Json& object, const char* key,
                               uint64_t limit) {
  const auto found = object.find(key);
  if (found == object.end()) return uint64_t{0};
  if (found->is_number_unsigned() && found->get<uint64_t>() <= limit) {
    return found->get<uint64_t>();
  }
  return BrokenHistory(
      absl::StrCat("\"", key, "\" is not a whole number of 0 to ", limit));
}

// Returns the loss of that key; nothing when it is absent.
absl::StatusOr<std::optional<double>> Loss(const Json& object,
                                           const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return std::nullopt;
  if (found->is_number()) return found->get<double>();
  return BrokenHistory(absl::StrCat("\"", key, "\" is not a number"));
}

// Writes a value unless it is the default, which Count and Loss restore.
void Put(Json& object, const char* key, const std::optional<double>& loss) {
  if (loss.has_value()) object[key] = *loss;
}

void Put(Json& object, const char* key, uint64_t count) {
  if (count > 0) object[key] = count;
}

absl::Status ReadCounts(const Json& object, EvaluationState& state) {
  ASSIGN_OR_RETURN(state.step, Count(object, "step", UINT64_MAX));
  const auto read = [&object](const char* key, uint32_t& to) -> absl::Status {
    ASSIGN_OR_RETURN(const uint64_t count, Count(object, key, UINT32_MAX));
    to = static_cast<uint32_t>(count);
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(read("stalled", state.stalled));
  RETURN_IF_ERROR(read("plateau_stalled", state.plateau_stalled));
  RETURN_IF_ERROR(read("plateau_cooldown", state.plateau_cooldown));
  return read("plateau_reductions", state.plateau_reductions);
}

}  // namespace

std::string ToJson(const EvaluationState& state) {
  Json object = Json::object();
  Put(object, "step", state.step);
  Put(object, "loss", state.loss);
  Put(object, "stopping_best", state.stopping_best);
  Put(object, "stalled", uint64_t{state.stalled});
  Put(object, "plateau_best", state.plateau_best);
  Put(object, "plateau_stalled", uint64_t{state.plateau_stalled});
  Put(object, "plateau_cooldown", uint64_t{state.plateau_cooldown});
  Put(object, "plateau_reductions", uint64_t{state.plateau_reductions});
  if (!state.best_losses.empty()) object["best_losses"] = state.best_losses;
  return object.dump();
}

absl::StatusOr<EvaluationState> ParseEvaluationState(absl::string_view json) {
  const Json object =
      Json::parse(json.data(), json.data() + json.size(), nullptr, false);
  if (!object.is_object()) return BrokenHistory("they are not a JSON object");
  EvaluationState state;
  RETURN_IF_ERROR(ReadCounts(object, state));
  ASSIGN_OR_RETURN(state.loss, Loss(object, "loss"));
  ASSIGN_OR_RETURN(state.stopping_best, Loss(object, "stopping_best"));
  ASSIGN_OR_RETURN(state.plateau_best, Loss(object, "plateau_best"));
  const auto best = object.find("best_losses");
  if (best == object.end()) return state;
  if (!best->is_array() || best->size() > kMostBest) {
    return BrokenHistory("\"best_losses\" is not a list of numbers");
  }
  for (const Json& loss : *best) {
    if (!loss.is_number()) return BrokenHistory("a best loss is not a number");
    state.best_losses.push_back(loss.get<double>());
  }
  return state;
}

void EvaluationHistory::Add(uint64_t step, double loss) {
  if (state_.step == step && step > 0) return;
  state_.step = step;
  state_.loss =
      std::isfinite(loss) ? std::optional<double>(loss) : std::nullopt;
  AddToStopping(loss);
  AddToPlateau(loss);
  if (std::isfinite(loss)) AddToBest(loss);
}

void EvaluationHistory::AddToStopping(double loss) {
  if (!training_->has_early_stopping() || stopped()) return;
  const double least = training_->early_stopping().min_delta();
  if (std::isfinite(loss) && (!state_.stopping_best.has_value() ||
                              loss < *state_.stopping_best - least)) {
    state_.stopping_best = loss;
    state_.stalled = 0;
  } else {
    ++state_.stalled;
  }
}

void EvaluationHistory::AddToPlateau(double loss) {
  if (!training_->schedule().has_plateau()) return;
  const auto& rule = training_->schedule().plateau();
  const double threshold = rule.has_threshold() ? rule.threshold() : 1e-4;
  const uint32_t patience = rule.has_patience() ? rule.patience() : 10;
  if (std::isfinite(loss) && (!state_.plateau_best.has_value() ||
                              loss < *state_.plateau_best * (1 - threshold))) {
    state_.plateau_best = loss;
    state_.plateau_stalled = 0;
  } else {
    ++state_.plateau_stalled;
  }
  // The order is ReduceLROnPlateau's: evaluations of a cool-down do not count
  // as stalled, even if the loss did not improve.
  if (state_.plateau_cooldown > 0) {
    --state_.plateau_cooldown;
    state_.plateau_stalled = 0;
  }
  if (state_.plateau_stalled <= patience) return;
  ++state_.plateau_reductions;
  state_.plateau_cooldown = rule.cooldown();
  state_.plateau_stalled = 0;
}

void EvaluationHistory::AddToBest(double loss) {
  std::vector<double>& best = state_.best_losses;
  // The earlier one of equal losses counts as better.
  best.insert(std::upper_bound(best.begin(), best.end(), loss), loss);
  const size_t kept = training_->keep_best_checkpoints();
  if (best.size() > kept) best.resize(kept);
}

bool EvaluationHistory::stopped() const {
  return training_->has_early_stopping() &&
         state_.stalled >= training_->early_stopping().patience();
}

bool EvaluationHistory::newest_is_best() const {
  return state_.loss.has_value() && !state_.best_losses.empty() &&
         *state_.loss <= state_.best_losses.back();
}

}  // namespace gpupool::engine
