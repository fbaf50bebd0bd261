// Chooses how to train a model when nobody says how. Pure.
#pragma once

#include <cstdint>

#include "engine/model/layer_spec.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {

// Returns SGD with momentum for batches of `batch` examples. The loss is the
// cross entropy if the first output of `forward` is [batch, classes], else the
// mean squared error.
v1::TrainingSpec DefaultTraining(const ModelGraph& forward, int64_t batch,
                                 v1::Precision precision);

}  // namespace gpupool::engine
