// The programs of a model, which share persistent values by name. All
// are plain graphs: run the passes on them before planning. Pure functions;
// errors of the spec are InvalidArgument.
//
// Inputs of the programs:
//   those of the model                              all
//   labels, target  as engine/import/losses.h says  training and evaluation
//   row_count      int64 []    evaluation: rows of the batch that count
//   learning_rate  float64 []  training
//   step           int64 []    training; counts from 1
//   seed           int64 []    training, only when a layer drops out
//   batch          int64 []    accumulation, only when a layer drops out:
//                              counts batches from 1
// Outputs:
//   loss           float32 []  training, mean over the batch and the ranks; not
//                              scaled
//   loss_scale, skipped_steps  training with FP16, of the optimizer step: as
//                              engine/autodiff/loss_scaling.h says
//   as engine/import/losses.h says  evaluation
//   those of the model         inference, under their names
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/import/layer_spec.h"
#include "engine/import/model_source.h"

namespace gpupool::v1 {
class Scaling;
class TrainingSpec;
}  // namespace gpupool::v1

namespace gpupool::engine {

// Whether a step takes several batches: then BuildAccumulationGraph has the
// program of all of them but the last, and BuildTrainingGraph the last one's.
bool Accumulates(const v1::TrainingSpec& training);

// One optimizer step. The batch is training.batch_size(). Gradients are
// averaged over the step's batches and the ranks, clamped, clipped by norm, in
// this order. With several `ranks` the batch is that of one, and the graph has
// the inputs and outputs of engine/autodiff/rank_mean.h.
// With training.precision() BF16 or FP16 the graph has its casts, and with FP16
// the scaling of its loss. The other graphs are float32: the passes put casts
// into them.
// With training.ema(), "<weight>/ema" follow the trained weights; whoever
// starts fresh copies the weights into them.
// Nothing is allocated; use it for plans as well.
// `scaling` without a rule adds nothing to the graph; otherwise input.scale
// and input.shift are persistent (multiply: scale is initialised to it).
absl::StatusOr<ModelGraph> BuildTrainingGraph(const ModelSource& model,
                                              const v1::Scaling& scaling,
                                              const v1::TrainingSpec& training,
                                              int ranks = 1);

// Adds a batch's gradients to the persistent "<weight>/grad", which begin as
// zeros, and has the output "loss". InvalidArgument as BuildTrainingGraph.
absl::StatusOr<ModelGraph> BuildAccumulationGraph(
    const ModelSource& model, const v1::Scaling& scaling,
    const v1::TrainingSpec& training);

// With training.ema() it reads "<weight>/ema" in place of trained weights.
absl::StatusOr<ModelGraph> BuildEvalGraph(const ModelSource& model,
                                          const v1::Scaling& scaling,
                                          const v1::TrainingSpec& training,
                                          int64_t batch);

// `input_scaling`: the model was trained with a scaling rule.
absl::StatusOr<ModelGraph> BuildInferenceGraph(const ModelSource& model,
                                               bool input_scaling,
                                               int64_t batch);
absl::StatusOr<ModelGraph> BuildInferenceGraph(const ModelSource& model,
                                               const BuildOptions& options);

// The same for chains of layers.
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
