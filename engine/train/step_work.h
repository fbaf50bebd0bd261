// Counts the work of a training step: kernels, FLOPs and bytes, from which the
// time of a step is estimated.
#pragma once

#include "engine/train/programs.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine {

// Returns the work of one optimizer step on one device.
v1::StepWork StepWorkOf(const TrainingPrograms& programs);

}  // namespace gpupool::engine
