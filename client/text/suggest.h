// "Did you mean": finds the nearest of the valid words. Pure; from any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace gpupool::client {

// Returns the number of single-letter insertions, deletions, replacements and
// swaps of neighbours that turn `a` into `b` (optimal string alignment
// distance).
int EditDistance(absl::string_view a, absl::string_view b);

// Returns the candidate nearest to `word`, ignoring case, or "" if none is
// near: at most a third of the letters may differ. A candidate that begins with
// `word` (three letters or more) counts as near.
std::string Nearest(absl::string_view word,
                    const std::vector<std::string>& candidates);

// Returns "; did you mean 'x'?" or "".
std::string DidYouMean(absl::string_view word,
                       const std::vector<std::string>& candidates);

}  // namespace gpupool::client
