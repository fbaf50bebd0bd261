// Builds the programs of a model, which share persistent values by name. All
// are plain graphs: run the passes on them before planning. Pure functions.
// Errors of the spec are INVALID_ARGUMENT.
//
// Inputs of the programs:
//   the model's inputs         all programs
//   labels, target             training and evaluation (engine/model/losses.h,
//                              loss_terms.h)
//   row_count      int64 []    evaluation: rows of the batch that count
//   learning_rate  float64 []  training
//   step           int64 []    training; counts from 1
//   seed           int64 []    training, only when a layer drops out
//   batch          int64 []    accumulation, only when a layer drops out:
//                              counts batches from 1
// Outputs:
//   loss           float32 []  training: mean over the batch and the ranks, not
//                              scaled; with several losses, their weighted sum
//   loss_scale, skipped_steps  training with FP16, for the optimizer step
//                              (engine/autodiff/loss_scaling.h)
//   sums and counts            evaluation (engine/model/losses.h, loss_terms.h)
//   the model's outputs        inference, under their names
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/model/layer_spec.h"
#include "engine/model/model_source.h"

namespace gpupool::v1 {
class Scaling;
class TrainingSpec;
}  // namespace gpupool::v1

namespace gpupool::engine {

// Returns whether a step takes several batches. Then BuildAccumulationGraph
// gives the program of all batches except the last, and BuildTrainingGraph that
// of the last one.
bool Accumulates(const v1::TrainingSpec& training);

// Builds the program of one optimizer step.
// - The batch is training.batch_size(). With several `ranks` it is the batch of
//   one rank, and the graph has the inputs and outputs of
//   engine/autodiff/rank_mean.h.
// - Gradients are first averaged over the step's batches and the ranks, then
//   clamped, then clipped by norm.
// - With training.precision() BF16 or FP16 the graph has its casts, and with
//   FP16 the scaling of its loss. The other programs are float32, and the
//   passes add casts.
// - Weights may have a learning rate and a weight decay of their own
//   (engine/model/weight_groups.h).
// - With training.ema(), "<weight>/ema" follow the trained weights. A fresh
//   start must copy the weights into them.
// - Without a rule in `scaling`, the graph has no scaling. Otherwise
//   input.scale and input.shift are persistent. The rule `multiply` is the
//   initial value of the scale.
//
// Allocates nothing, so it can also be used for plans.
absl::StatusOr<ModelGraph> BuildTrainingGraph(const ModelSource& model,
                                              const v1::Scaling& scaling,
                                              const v1::TrainingSpec& training,
                                              int ranks = 1);

// Builds a program that adds a batch's gradients to the persistent
// "<weight>/grad", which begin as zeros. Its output is "loss". INVALID_ARGUMENT
// as BuildTrainingGraph.
absl::StatusOr<ModelGraph> BuildAccumulationGraph(
    const ModelSource& model, const v1::Scaling& scaling,
    const v1::TrainingSpec& training);

// Builds the evaluation program. With training.ema() it reads "<weight>/ema"
// instead of the trained weights.
absl::StatusOr<ModelGraph> BuildEvalGraph(const ModelSource& model,
                                          const v1::Scaling& scaling,
                                          const v1::TrainingSpec& training,
                                          int64_t batch);

// Builds the inference program. `input_scaling` tells whether the model was
// trained with a scaling rule.
absl::StatusOr<ModelGraph> BuildInferenceGraph(const ModelSource& model,
                                               bool input_scaling,
                                               int64_t batch);
absl::StatusOr<ModelGraph> BuildInferenceGraph(const ModelSource& model,
                                               const BuildOptions& options);

// Do the same for chains of layers.
absl::StatusOr<ModelGraph> BuildTrainingGraph(const v1::ModelSpec& model,
                                              const v1::Scaling& scaling,
                                              const v1::TrainingSpec& training);
absl::StatusOr<ModelGraph> BuildEvalGraph(const v1::ModelSpec& model,
                                          const v1::Scaling& scaling,
                                          const v1::TrainingSpec& training,
                                          int64_t batch);
absl::StatusOr<ModelGraph> BuildInferenceGraph(const v1::ModelSpec& model,
                                               bool input_scaling,
                                               int64_t batch);

}  // namespace gpupool::engine
