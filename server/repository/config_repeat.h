// Reads from a config.pbtxt whether a model is one of the back end "repeat",
// which the server has itself (server/serving/decoupled/repeat_responses.h).
//
// Pure functions; any thread.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "inference/model_config.pb.h"

namespace gpupool::server {

// Returns whether the config names the back end, as its backend or platform.
bool IsRepeat(const inference::ModelConfig& config);

// Returns OK if the config of such a model, whose fields CheckConfigFields
// takes, says nothing but what the back end does. It may list the inputs and
// outputs, all or none. InvalidArgument has the path of the field, its value,
// what is allowed and what to do.
absl::Status CheckRepeatConfig(absl::string_view model,
                               const inference::ModelConfig& config);

}  // namespace gpupool::server
