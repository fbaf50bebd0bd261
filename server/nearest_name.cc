#include "server/nearest_name.h"

#include <algorithm>
#include <numeric>

namespace gpupool::server {
namespace {

// Longest name that is compared: longer ones are no typing errors, and their
// distance takes time.
constexpr size_t kLongestName = 64;

// Returns the edit distance (Levenshtein): letters to insert, delete or
// replace.
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);  // distances from a's prefix
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

}  // namespace

std::string NearestName(absl::string_view name,
                        const std::vector<std::string>& candidates) {
  if (name.empty() || name.size() > kLongestName) return "";
  std::string nearest;
  size_t least = kLongestName;
  for (const std::string& candidate : candidates) {
    const size_t distance = Distance(name, candidate);
    const size_t longest = std::max(name.size(), candidate.size());
    if (3 * distance > longest || distance >= least) continue;
    nearest = candidate;
    least = distance;
  }
  return nearest;
}

}  // namespace gpupool::server
