// Numbers of bound inputs as bytes, as requests carry them, and back. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/serving/inference_programs.h"

namespace gpupool::engine {

// The bytes of the bound ones among `inputs`, one after the other.
// InvalidArgument when one is larger than kMaxBoundBytes.
absl::StatusOr<std::string> PlannedBoundBytes(
    const std::map<std::string, std::vector<double>>& numbers,
    const std::vector<ServedPort>& inputs);

// The other way round. InvalidArgument when `bytes` has another length.
absl::StatusOr<absl::flat_hash_map<std::string, std::vector<double>>>
BoundNumbers(const std::vector<ServedPort>& inputs, absl::string_view bytes);

}  // namespace gpupool::engine
