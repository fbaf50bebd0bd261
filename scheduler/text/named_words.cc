#include "scheduler/text/named_words.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace gpupool::scheduler {
namespace {

using Halves = std::pair<absl::string_view, absl::string_view>;

// Returns the stripped parts before and after the first `separator`.
Halves SplitOnce(absl::string_view text, char separator) {
  const Halves halves = absl::StrSplit(text, absl::MaxSplits(separator, 1));
  return {absl::StripAsciiWhitespace(halves.first),
          absl::StripAsciiWhitespace(halves.second)};
}

}  // namespace

std::vector<NamedWords> SplitNamedWords(absl::string_view text) {
  std::vector<NamedWords> entries;
  for (absl::string_view one : absl::StrSplit(text, ';')) {
    if (absl::StripAsciiWhitespace(one).empty()) continue;
    const Halves entry = SplitOnce(one, ':');
    NamedWords& named = entries.emplace_back();
    named.name = std::string(entry.first);
    if (entry.second.empty()) continue;
    for (absl::string_view part : absl::StrSplit(entry.second, ',')) {
      const Halves word = SplitOnce(part, '=');
      named.words.push_back(
          {.key = std::string(word.first), .value = std::string(word.second)});
    }
  }
  return entries;
}

bool IsEntryName(absl::string_view name) {
  if (name.empty() || name.size() > 128 || name.front() == '.') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
  });
}

absl::Status WrongEntry(absl::string_view kind, const NamedWords& entry,
                        absl::string_view what, absl::string_view allowed) {
  return absl::InvalidArgumentError(absl::StrCat(
      kind, " '", entry.name, "'", entry.where, ": ", what, "; ", allowed));
}

}  // namespace gpupool::scheduler
