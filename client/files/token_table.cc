#include "client/files/token_table.h"

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/text/text_file.h"
#include "client/text/utf8.h"

namespace gpupool::client {
namespace {

constexpr size_t kMostBytes = 4 << 20;
constexpr absl::string_view kTableMark = "\xEF\xBB\xBF";

// Returns what is wrong with a line, and the remedy; empty: nothing.
absl::string_view FaultOf(absl::string_view line) {
  if (line.empty()) return "is empty; write one token a line, without blanks";
  if (line.find_first_of(" \t\r\f\v") != absl::string_view::npos) {
    return "has a blank; write one token a line, without blanks";
  }
  if (line.find('\0') != absl::string_view::npos) {
    return "has a byte of zero, which no text has; save the file as UTF-8 "
           "text, not as UTF-16";
  }
  return IsUtf8(line) ? "" : "is not UTF-8; save the file as UTF-8";
}

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
    const absl::string_view fault = FaultOf(line);
    if (!fault.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": line ", tokens.size() + 1, " ", fault));
    }
    tokens.emplace_back(line);
  }
  return tokens;
}

}  // namespace gpupool::client
