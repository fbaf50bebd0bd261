// "Did you mean": the nearest of the words that would have been right.
// Pure; from any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace gpupool::client {

// The number of single-letter insertions, deletions, replacements and swaps of
// neighbours that turn `a` into `b` (optimal string alignment distance).
int EditDistance(absl::string_view a, absl::string_view b);

// The candidate nearest to `word`, ignoring case, or "" when none is near
// enough to be meant: at most a third of the letters may differ. A candidate
// that begins with `word` (three letters or more) counts as near.
std::string Nearest(absl::string_view word,
                    const std::vector<std::string>& candidates);

// "; did you mean 'x'?" or "".
std::string DidYouMean(absl::string_view word,
                       const std::vector<std::string>& candidates);

}  // namespace gpupool::client
