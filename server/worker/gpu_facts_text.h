// The facts of a GPU as one line of JSON. A process that sees the driver sends
// them to one that plans for the GPU without a driver.
//
// Thread-safety: any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "engine/runtime/device_facts.h"

namespace gpupool::server {

nlohmann::json ToJson(const engine::DeviceFacts& facts);

// Parses the output of ToJson and ignores unknown members. INVALID_ARGUMENT
// names the member that is missing or wrong.
absl::StatusOr<engine::DeviceFacts> ParseGpuFacts(const std::string& text);

}  // namespace gpupool::server
