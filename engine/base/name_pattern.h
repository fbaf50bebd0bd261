// Patterns that choose weights and layers by name, and suggestions for a name
// that does not exist. Pure functions.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace gpupool::engine {

// Returns whether the whole name fits the pattern, where '*' stands for any
// characters or none. Takes at most O(name * pattern) time.
bool MatchesPattern(absl::string_view name, absl::string_view pattern);

inline constexpr size_t kMostComparedNames = 10'000;

// Returns at most `count` of the names as "'a', 'b'", the most similar to
// `word` first and equally similar ones in their order. Reads only the first
// kMostComparedNames names.
std::string ClosestNames(absl::string_view word,
                         absl::Span<const std::string> names, size_t count);

}  // namespace gpupool::engine
