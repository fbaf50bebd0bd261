// Names of weights and layers chosen by patterns, and what somebody may have
// meant by a name that does not exist. Pure functions.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace gpupool::engine {

// Whether the whole name fits the pattern, where '*' stands for any
// characters, also for none. Takes time in proportion to the product of the
// lengths at most.
bool MatchesPattern(absl::string_view name, absl::string_view pattern);

// At most `count` of the names, the most similar ones first, as
// "'a', 'b'"; equally similar ones in their order. Of a long list only the
// first ten thousand names are looked at.
std::string ClosestNames(absl::string_view word,
                         absl::Span<const std::string> names, size_t count);

}  // namespace gpupool::engine
