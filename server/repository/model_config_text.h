// Reads the text of a config.pbtxt, which is protobuf's text format of
// inference.ModelConfig.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "inference/model_config.pb.h"

namespace gpupool::server {

// Maximum size of a config.pbtxt.
inline constexpr uint64_t kMaxConfigBytes = uint64_t{1} << 20;

// Returns the message. InvalidArgument has line and column of the first error,
// such as a field that the schema does not have, or a field that is given
// twice.
absl::StatusOr<inference::ModelConfig> ParseModelConfig(
    const std::string& text);

}  // namespace gpupool::server
