// Converts the numbers of bound inputs to the bytes that requests carry, and
// back. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/serving/inference_programs.h"

namespace gpupool::engine {

// Returns the bytes of the bound inputs among `inputs`, one after the other.
// INVALID_ARGUMENT when one is larger than kMaxBoundBytes.
absl::StatusOr<std::string> PlannedBoundBytes(
    const std::map<std::string, std::vector<double>>& numbers,
    const std::vector<ServedPort>& inputs);

// Checks that the keys of this many programs, with as many bytes of bound
// inputs each, have at most kMaxKeptBoundBytes. INVALID_ARGUMENT says how many
// programs may be kept.
absl::Status CheckKeptBoundBytes(uint64_t bytes, uint32_t max_programs);

// Returns the numbers in `bytes` by input. INVALID_ARGUMENT when `bytes` has
// another length.
absl::StatusOr<absl::flat_hash_map<std::string, std::vector<double>>>
BoundNumbers(const std::vector<ServedPort>& inputs, absl::string_view bytes);

}  // namespace gpupool::engine
