// Checks the form and the limits of a job's training that need neither its
// model nor its data. Pure; the meta worker checks the rest.
#pragma once

#include "absl/status/status.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::server {

// Returns OK, or InvalidArgument with the field by its path
// ("training.adam.beta1"), its value and the limit.
absl::Status CheckTrainingSpec(const v1::TrainingSpec& training);

}  // namespace gpupool::server
