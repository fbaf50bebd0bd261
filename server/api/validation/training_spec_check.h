// The form and the limits of a job's training, as far as they can be told
// without its model and data. Pure; the meta worker checks the rest.
#pragma once

#include "absl/status/status.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::server {

// InvalidArgument names the field by its path ("training.adam.beta1"), its
// value and the limit.
absl::Status CheckTrainingSpec(const v1::TrainingSpec& training);

}  // namespace gpupool::server
