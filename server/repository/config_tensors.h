// Compares the inputs and outputs of a config.pbtxt with those of the file.
//
// Pure functions; any thread.
#pragma once

#include "absl/status/status.h"
#include "gpupool/v1/model.pb.h"
#include "inference/model_config.pb.h"

namespace gpupool::server {

// Returns OK if the config lists no inputs or all of the plan with their types
// and dims, the same for outputs, and has a max_batch_size only for a model
// with a batch dimension. InvalidArgument names the tensor and both values.
//
// Controls and states of sequence_batching are no inputs for clients. A state
// may be listed as an output.
//
// With a max_batch_size above 0, dims leave the batch dimension out.
absl::Status CheckConfigTensors(const inference::ModelConfig& config,
                                const v1::Plan& plan);

}  // namespace gpupool::server
