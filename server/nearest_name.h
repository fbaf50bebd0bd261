// Finds the known name that is nearest to an unknown one.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace gpupool::server {

// Returns the candidate with the smallest edit distance to `name`, the first of
// several. Returns "" when more than a third of the letters differ.
std::string NearestName(absl::string_view name,
                        const std::vector<std::string>& candidates);

}  // namespace gpupool::server
