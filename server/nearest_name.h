// The nearest known name for one that is not known.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace gpupool::server {

// Returns the candidate with the fewest letters that differ from `name`, the
// first of several, or nothing when more than a third of them do.
std::string NearestName(absl::string_view name,
                        const std::vector<std::string>& candidates);

}  // namespace gpupool::server
