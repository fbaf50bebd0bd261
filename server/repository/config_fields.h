// The fields of a config.pbtxt that this server carries out. Every other field
// that is set is refused by its path, so that none is ignored in silence.
//
// Pure functions; any thread.
#pragma once

#include "absl/status/status.h"
#include "inference/model_config.pb.h"

namespace gpupool::server {

// Returns OK when all fields that are set are known. InvalidArgument has, for
// each other one, its path ("instance_group[0].host_policy") and what to do
// instead; at most eight of them. Values of known fields are not checked.
absl::Status CheckConfigFields(const inference::ModelConfig& config);

}  // namespace gpupool::server
