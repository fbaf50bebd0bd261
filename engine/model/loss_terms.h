// The losses of a training spec: one, or the weighted sum of those in
// training.losses. Pure.
//
// One of several losses leads: the first of classification, or else the first.
// Its inputs and outputs have the names of a single loss. Another one, at
// position N in the spec, has the input "labels.N" or "target.N", and for
// evaluation only the outputs "loss_sum.N" and "counted.N".
//
// With training.mix each loss has a second input, for the targets of the rows
// that are mixed in. Its name begins with kMixedPrefix.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/job_limits.h"
#include "engine/graph/builder.h"
#include "engine/model/layer_spec.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {

// Name of the input that holds lambda, the share of a row's own targets in a
// mixed loss: float32 [].
inline constexpr char kMixLambdaName[] = "mix_lambda";
// Prefix of the names of inputs that hold mixed-in targets.
inline constexpr char kMixedPrefix[] = "mixed_";

struct LossTerm {
  // The job's training with this loss alone, for engine/model/losses.h.
  v1::TrainingSpec training;
  double weight = 1;
  std::string field;   // for errors: "training", "training.losses[1]"
  std::string output;  // of the model; empty: its first
  std::string target;  // of the dataset; empty: its only one
  std::string suffix;  // of its inputs and outputs: "" if it leads, else ".1"
  bool leads = true;
  bool only = true;  // whether there is no other loss
};

// Returns the losses, at least one. Its numbers are not checked.
std::vector<LossTerm> LossTermsOf(const v1::TrainingSpec& training);

// Checks count, weights and loss of training.losses. INVALID_ARGUMENT names the
// field, its value and the limit.
absl::Status CheckLossTerms(const v1::TrainingSpec& training);

// Returns the model's output that the loss reads. INVALID_ARGUMENT lists those
// that the model has.
absl::StatusOr<const ModelPort*> OutputOf(const LossTerm& term,
                                          const ModelGraph& model);

// Adds the losses with their inputs, and returns their weighted sum, float32
// []. With training.mix each is lambda * a + (1 - lambda) * b, where a is the
// loss for the rows' own targets and b the loss for the mixed-in ones. Errors
// as OutputOf and AddLoss.
absl::StatusOr<ValueId> AddLosses(const v1::TrainingSpec& training,
                                  const ModelGraph& model,
                                  GraphBuilder& builder);

// Adds inputs and outputs for evaluation, as AddEvaluation for each loss.
// Returns a value that all losses influence; it is no output.
absl::StatusOr<ValueId> AddEvaluations(const v1::TrainingSpec& training,
                                       const ModelGraph& model,
                                       GraphBuilder& builder);

}  // namespace gpupool::engine
