// Names and values as MLflow takes them. Pure functions.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace gpupool::client {

// The longest name of a metric or param, and the longest value of a param that
// every MLflow since 1.28 takes, in bytes.
inline constexpr size_t kLongestEntityName = 250;
inline constexpr size_t kLongestParamValue = 500;

// Returns a name that MLflow takes for a metric or a param.
//   - Letters and digits of ASCII, "_", "-", ".", " " and "/" are kept.
//   - Every other byte becomes "_".
//   - Parts between slashes that are empty, "." or ".." become "_".
//   - The end is cut.
std::string EntityName(absl::string_view name);

// Returns the value, or its start and "..." if it is too long. It never ends
// within a UTF-8 character.
std::string ParamValue(absl::string_view value);

}  // namespace gpupool::client
