#include "client/files/token_table.h"

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/text/text_file.h"

namespace gpupool::client {
namespace {

constexpr size_t kMostBytes = 4 << 20;
constexpr absl::string_view kTableMark = "\xEF\xBB\xBF";

}  // namespace

absl::StatusOr<std::vector<std::string>> ReadTokenTable(
    const std::string& path) {
  const absl::StatusOr<std::string> text = ReadTextFile(path, kMostBytes);
  if (!text.ok()) return text.status();
  absl::string_view rest = absl::StripPrefix(*text, kTableMark);
  rest = absl::StripSuffix(rest, "\n");
  std::vector<std::string> tokens;
  for (absl::string_view line : absl::StrSplit(rest, '\n')) {
    line = absl::StripSuffix(line, "\r");
    if (line.empty() ||
        line.find_first_of(" \t\r\f\v") != absl::string_view::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": line ", tokens.size() + 1,
                       line.empty() ? " is empty" : " has a blank",
                       "; write one token a line, without blanks"));
    }
    tokens.emplace_back(line);
  }
  return tokens;
}

}  // namespace gpupool::client
