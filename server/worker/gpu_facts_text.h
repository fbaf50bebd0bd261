// What a GPU is as one line of JSON: a process that sees the driver tells it to
// one that plans for the GPU without.
//
// Thread-safety: any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "engine/runtime/device_facts.h"

namespace gpupool::server {

nlohmann::json ToJson(const engine::DeviceFacts& facts);

// Takes what ToJson made, with members that it does not know.
//   INVALID_ARGUMENT  names the member that is missing or wrong
absl::StatusOr<engine::DeviceFacts> ParseGpuFacts(const std::string& text);

}  // namespace gpupool::server
