// The three programs of a model, which share persistent values by name. All
// are plain graphs: run the passes on them before planning. Pure functions;
// errors of the spec are InvalidArgument.
//
// Inputs of the programs:
//   input          float32 [batch, input_shape...]  all
//   labels         int64 [batch]                    cross entropy
//   target         float32 [batch, output_shape...] mean squared error
//   row_count      int64 []    evaluation: rows of the batch that count
//   learning_rate  float64 []  training
//   step           int64 []    training; counts from 1
//   seed           int64 []    training, only when a layer drops out
// Outputs:
//   loss           float32 []  training, mean over the batch
//   loss_sum       float32 []  evaluation, over row_count rows
//   correct        int64 []    evaluation with cross entropy
//   output         float32 [batch, output_shape...] inference
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/import/layer_spec.h"

namespace gpupool::v1 {
class ModelSpec;
class Scaling;
class TrainingSpec;
}  // namespace gpupool::v1

namespace gpupool::engine {

// Uses of TrainingSpec: loss, optimizer, clip_gradient_norm. The batch is
// training.batch_size(). Nothing is allocated; use it for plans as well.
// `scaling` without a rule adds nothing to the graph; otherwise input.scale
// and input.shift are persistent (multiply: scale is initialised to it).
absl::StatusOr<ModelGraph> BuildTrainingGraph(const v1::ModelSpec& model,
                                              const v1::Scaling& scaling,
                                              const v1::TrainingSpec& training);

absl::StatusOr<ModelGraph> BuildEvalGraph(const v1::ModelSpec& model,
                                          const v1::Scaling& scaling,
                                          const v1::TrainingSpec& training,
                                          int64_t batch);

// `input_scaling`: the model was trained with a scaling rule.
absl::StatusOr<ModelGraph> BuildInferenceGraph(const v1::ModelSpec& model,
                                               bool input_scaling,
                                               int64_t batch);

}  // namespace gpupool::engine
