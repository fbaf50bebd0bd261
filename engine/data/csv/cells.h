// The cells of CSV records (RFC 4180). A cell may be in double quotes. Commas
// and line ends inside quotes belong to the cell, and a doubled quote stands
// for one. Blanks around a cell do not count.
//
//   record = cell *("," cell)
//   cell   = plain / DQUOTE *(any but DQUOTE / 2DQUOTE) DQUOTE
//
// Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"

namespace gpupool::engine {

// Bounds the memory for the cells of a line of 64 MiB.
inline constexpr size_t kMaxCsvColumns = size_t{1} << 20;

// Follows the quotes of a record, whose bytes may come in parts.
class QuoteScan {
 public:
  void Add(std::string_view bytes);
  // Returns whether the bytes end inside quotes.
  bool open() const { return state_ == State::kQuoted; }

 private:
  enum class State : uint8_t { kStart, kPlain, kQuoted, kQuoteSeen };
  State state_ = State::kStart;
};

// Divides records into cells.
class CellSplitter {
 public:
  // Returns the cells without blanks and quotes around them, at least one. They
  // are valid until the next call, and while `record` is. INVALID_ARGUMENT
  // names the one-based column with a wrong quote, or the limit of
  // kMaxCsvColumns; no cell above it is kept.
  absl::StatusOr<absl::Span<const std::string_view>> Split(
      std::string_view record);

 private:
  absl::Status Add(std::string_view cell);
  absl::Status SplitQuoted(std::string_view record);
  std::string_view WithoutDoubledQuotes(std::string_view text);

  std::vector<std::string_view> cells_;
  std::string unescaped_;
};

// Returns the text without blanks at both ends.
std::string_view Trimmed(std::string_view text);

// Returns whether the cell stands for no value: it is empty, or NA, N/A, #N/A,
// <NA>, NaN, null or ?, in any case.
bool IsMissing(std::string_view cell);

// Returns the cell for an error: in quotes, escaped and cut.
std::string QuotedCell(std::string_view cell);

// Returns the first `most` texts for an error, each as QuotedCell, and ", ..."
// if there are more.
template <typename Texts>
std::string QuotedCells(const Texts& texts, ptrdiff_t most) {
  const ptrdiff_t count = std::distance(texts.begin(), texts.end());
  return absl::StrCat(
      absl::StrJoin(texts.begin(), texts.begin() + std::min(count, most), ", ",
                    [](std::string* out, const std::string& text) {
                      absl::StrAppend(out, QuotedCell(text));
                    }),
      count > most ? ", ..." : "");
}

}  // namespace gpupool::engine
