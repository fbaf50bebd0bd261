#include "engine/data/csv/cells.h"

#include <algorithm>
#include <array>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

constexpr size_t kMaxQuoted = 40;
constexpr size_t kLongestMissing = 4;
constexpr std::array<absl::string_view, 7> kMissingTexts = {
    "na", "n/a", "#n/a", "<na>", "nan", "null", "?"};

bool IsBlank(char c) { return c == ' ' || c == '\t'; }

bool IsContinuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

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

// Returns the length of the character at the front of the text, or 0 if it is
// not one of UTF-8 (RFC 3629).
size_t CharacterBytes(std::string_view text) {
  const auto byte = [&](size_t i) {
    return static_cast<unsigned char>(i < text.size() ? text[i] : 0);
  };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  // The second byte excludes long forms, surrogates and numbers above 10FFFF.
  const unsigned char lowest = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0;
  const unsigned char highest = first == 0xED   ? 0x9F
                                : first == 0xF4 ? 0x8F
                                                : 0xBF;
  if (byte(1) < lowest || byte(1) > highest) return 0;
  for (size_t i = 1; i < length; ++i) {
    if (!IsContinuation(static_cast<char>(byte(i)))) return 0;
  }
  return length;
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

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t bytes = CharacterBytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string_view CutUtf8(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && IsContinuation(text[bytes])) --bytes;
  return text.substr(0, bytes);
}

std::string QuotedCell(std::string_view cell) {
  const std::string shown(IsUtf8(cell) ? CutUtf8(cell, kMaxQuoted)
                                       : cell.substr(0, kMaxQuoted));
  return absl::StrCat(
      "\"",
      IsUtf8(cell) ? absl::Utf8SafeCHexEscape(shown) : absl::CHexEscape(shown),
      shown.size() < cell.size() ? "...\"" : "\"");
}

}  // namespace gpupool::engine
