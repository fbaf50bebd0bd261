// The training step that fits a model when nobody says how to train it. Pure.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/model/model_source.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine {

// Builds a step of `batch` examples with SGD with momentum. The loss is the
// cross entropy for an output [batch, classes] and the mean squared error for
// others. Errors as BuildTrainingGraph.
absl::StatusOr<ModelGraph> BuildDefaultStep(const ModelSource& model,
                                            int64_t batch,
                                            v1::Precision precision);

}  // namespace gpupool::engine
