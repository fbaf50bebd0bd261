#include "engine/data/csv/cells.h"

#include <algorithm>
#include <array>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/utf8.h"

namespace gpupool::engine {
namespace {

constexpr size_t kMaxQuoted = 40;
constexpr size_t kLongestMissing = 4;
constexpr std::array<absl::string_view, 7> kMissingTexts = {
    "na", "n/a", "#n/a", "<na>", "nan", "null", "?"};

bool IsBlank(char c) { return c == ' ' || c == '\t'; }

std::string_view WithoutLeadingBlanks(std::string_view text) {
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  return text;
}

// Returns the position of the quote that closes the first one.
size_t ClosingQuote(std::string_view text) {
  size_t at = 1;
  for (;;) {
    at = text.find('"', at);
    if (at == std::string_view::npos) return at;
    if (at + 1 == text.size() || text[at + 1] != '"') return at;
    at += 2;
  }
}

}  // namespace

void QuoteScan::Add(std::string_view bytes) {
  for (char c : bytes) {
    switch (state_) {
      case State::kQuoted:
        if (c == '"') state_ = State::kQuoteSeen;
        break;
      case State::kQuoteSeen:
      case State::kStart:
        if (c == '"') {
          state_ = State::kQuoted;
        } else if (c == ',') {
          state_ = State::kStart;
        } else if (!IsBlank(c)) {
          state_ = State::kPlain;
        } else if (state_ == State::kQuoteSeen) {
          state_ = State::kPlain;
        }
        break;
      case State::kPlain:
        if (c == ',') state_ = State::kStart;
        break;
    }
  }
}

absl::StatusOr<absl::Span<const std::string_view>> CellSplitter::Split(
    std::string_view record) {
  cells_.clear();
  if (record.find('"') != std::string_view::npos) {
    RETURN_IF_ERROR(SplitQuoted(record));
    return absl::Span<const std::string_view>(cells_);
  }
  for (;;) {
    const size_t comma = record.find(',');
    RETURN_IF_ERROR(Add(record.substr(0, comma)));
    if (comma == std::string_view::npos) break;
    record.remove_prefix(comma + 1);
  }
  return absl::Span<const std::string_view>(cells_);
}

absl::Status CellSplitter::Add(std::string_view cell) {
  if (cells_.size() == kMaxCsvColumns) {
    return absl::InvalidArgumentError(
        absl::StrCat("has more than ", kMaxCsvColumns,
                     " columns, which is the limit; upload wider rows as NPY "
                     "files or an NPZ archive"));
  }
  cells_.push_back(Trimmed(cell));
  return absl::OkStatus();
}

absl::Status CellSplitter::SplitQuoted(std::string_view record) {
  unescaped_.clear();
  // Cells refer to the text, so it must not move.
  unescaped_.reserve(record.size());
  for (std::string_view rest = record;;) {
    rest = WithoutLeadingBlanks(rest);
    if (rest.empty() || rest.front() != '"') {
      const size_t comma = rest.find(',');
      RETURN_IF_ERROR(Add(rest.substr(0, comma)));
      if (comma == std::string_view::npos) return absl::OkStatus();
      rest.remove_prefix(comma + 1);
      continue;
    }
    const size_t end = ClosingQuote(rest);
    if (end == std::string_view::npos) {
      return absl::InvalidArgumentError(absl::StrCat(
          "column ", cells_.size() + 1, ": a quote is not closed"));
    }
    RETURN_IF_ERROR(Add(WithoutDoubledQuotes(rest.substr(1, end - 1))));
    rest = WithoutLeadingBlanks(rest.substr(end + 1));
    if (rest.empty()) return absl::OkStatus();
    if (rest.front() != ',') {
      return absl::InvalidArgumentError(absl::StrCat(
          "column ", cells_.size(), ": ", QuotedCell(rest),
          " follows a closing quote; write quotes inside quotes twice"));
    }
    rest.remove_prefix(1);
  }
}

std::string_view CellSplitter::WithoutDoubledQuotes(std::string_view text) {
  if (text.find('"') == std::string_view::npos) return text;
  const size_t begin = unescaped_.size();
  for (size_t i = 0; i < text.size(); ++i) {
    unescaped_.push_back(text[i]);
    if (text[i] == '"') ++i;
  }
  return std::string_view(unescaped_).substr(begin);
}

std::string_view Trimmed(std::string_view text) {
  text = WithoutLeadingBlanks(text);
  while (!text.empty() && IsBlank(text.back())) text.remove_suffix(1);
  return text;
}

bool IsMissing(std::string_view cell) {
  if (cell.size() > kLongestMissing) return false;
  if (cell.empty()) return true;
  const absl::string_view text(cell.data(), cell.size());
  return std::any_of(kMissingTexts.begin(), kMissingTexts.end(),
                     [text](absl::string_view missing) {
                       return absl::EqualsIgnoreCase(text, missing);
                     });
}

std::string QuotedCell(std::string_view cell) {
  const bool utf8 = IsUtf8(cell);
  const std::string shown(utf8 ? CutUtf8(cell, kMaxQuoted)
                               : cell.substr(0, kMaxQuoted));
  return absl::StrCat(
      "\"", utf8 ? absl::Utf8SafeCHexEscape(shown) : absl::CHexEscape(shown),
      shown.size() < cell.size() ? "...\"" : "\"");
}

}  // namespace gpupool::engine
