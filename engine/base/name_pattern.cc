#include "engine/base/name_pattern.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gpupool::engine {
namespace {

constexpr size_t kLongestName = 256;

// Returns Levenshtein's distance. Keeps one row of the cost table: costs[j] is
// the distance of a[0..i) and b[0..j).
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> costs(b.size() + 1);
  std::iota(costs.begin(), costs.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = costs[0];
    costs[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = costs[j + 1];
      costs[j + 1] = std::min({costs[j] + 1, costs[j + 1] + 1, replaced});
    }
  }
  return costs[b.size()];
}

}  // namespace

bool MatchesPattern(absl::string_view name, absl::string_view pattern) {
  size_t at = 0, expected = 0;
  // The last star and how many characters it has taken up to: on a mismatch the
  // match goes on from there, with one character more. Only the last star needs
  // this, so the time is bounded by the product of the lengths.
  size_t star = absl::string_view::npos, taken = 0;
  while (at < name.size()) {
    if (expected < pattern.size() && pattern[expected] == '*') {
      star = expected++;
      taken = at;
    } else if (expected < pattern.size() && pattern[expected] == name[at]) {
      ++expected;
      ++at;
    } else if (star != absl::string_view::npos) {
      expected = star + 1;
      at = ++taken;
    } else {
      return false;
    }
  }
  while (expected < pattern.size() && pattern[expected] == '*') ++expected;
  return expected == pattern.size();
}

std::string ClosestNames(absl::string_view word,
                         absl::Span<const std::string> names, size_t count) {
  // Long names are cut, so a hostile list costs a bounded time.
  word = word.substr(0, kLongestName);
  std::vector<std::pair<size_t, size_t>> ranked;  // distance, position
  for (size_t i = 0; i < std::min(names.size(), kMostComparedNames); ++i) {
    const absl::string_view name(names[i]);
    ranked.emplace_back(Distance(word, name.substr(0, kLongestName)), i);
  }
  count = std::min(count, ranked.size());
  std::partial_sort(ranked.begin(),
                    ranked.begin() + static_cast<std::ptrdiff_t>(count),
                    ranked.end());
  ranked.resize(count);
  return absl::StrJoin(ranked, ", ", [&](std::string* out, const auto& entry) {
    absl::StrAppend(out, "'", names[entry.second], "'");
  });
}

}  // namespace gpupool::engine
