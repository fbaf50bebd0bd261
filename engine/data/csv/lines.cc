#include "engine/data/csv/lines.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/data/csv/cells.h"

namespace gpupool::engine {
namespace {

constexpr size_t kCsvChunkBytes = 256 << 10;
// Bounds the buffer for files without line ends, such as binary ones.
constexpr size_t kMaxLineBytes = 64 << 20;
// Finds a quote that is not closed before the whole file is one cell.
constexpr size_t kMaxQuotedLinesBytes = 1 << 20;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

absl::StatusOr<std::optional<std::string_view>> CsvLines::Next() {
  line_number_ = lines_ + 1;
  if (lines_ == 0) RETURN_IF_ERROR(SkipMark());
  QuoteScan quotes;
  size_t scanned = 0;    // bytes of the record that `quotes` has
  size_t first_end = 0;  // its bytes up to the first line end, or 0
  const auto ends_in_quotes = [&](size_t at) {
    if (form_ == LineForm::kJson) return false;
    const std::string_view part(buffer_.data() + begin_ + scanned,
                                at - begin_ - scanned);
    scanned += part.size();
    // Most lines have no quote.
    if (quotes.open() || part.find('"') != part.npos) quotes.Add(part);
    return quotes.open();
  };
  for (;;) {
    const size_t from = begin_ + searched_;
    const void* found =
        from == end_ ? nullptr
                     : std::memchr(buffer_.data() + from, '\n', end_ - from);
    if (found != nullptr) {
      const size_t at =
          static_cast<size_t>(static_cast<const char*>(found) - buffer_.data());
      ++lines_;
      if (!ends_in_quotes(at + 1)) return Take(at, at + 1);
      searched_ = scanned;
      if (first_end == 0) first_end = scanned;
      if (scanned - first_end <= kMaxQuotedLinesBytes) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("begins a row that goes on in quotes for more than ",
                       kMaxQuotedLinesBytes,
                       " bytes after its first line; close the quote"));
    }
    // A long line is searched once, and not again after each chunk.
    searched_ = end_ - begin_;
    ASSIGN_OR_RETURN(const bool more, Fill());
    if (more) continue;
    if (begin_ == end_) return std::nullopt;
    ++lines_;
    if (!ends_in_quotes(end_)) return Take(end_, end_);
    return absl::InvalidArgumentError(
        "begins a cell in quotes that never ends; close the quote, and write "
        "quotes inside quotes twice");
  }
}

absl::Status CsvLines::SkipMark() {
  while (end_ - begin_ < kByteOrderMark.size()) {
    ASSIGN_OR_RETURN(const bool more, Fill());
    if (!more) return absl::OkStatus();
  }
  const std::string_view first(buffer_.data() + begin_, kByteOrderMark.size());
  if (first == kByteOrderMark) begin_ += first.size();
  return absl::OkStatus();
}

std::string_view CsvLines::Take(size_t line_end, size_t next) {
  std::string_view line(buffer_.data() + begin_, line_end - begin_);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  begin_ = next;
  searched_ = 0;
  return line;
}

absl::StatusOr<bool> CsvLines::Fill() {
  if (end_ - begin_ > kMaxLineBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "is longer than ", kMaxLineBytes, " bytes; ",
        form_ == LineForm::kCsv
            ? "is this a CSV file?"
            : "write each object on a line of its own, or upload wide rows as "
              "NPY files or an NPZ archive"));
  }
  // Moves the unfinished record to the front, so the buffer stays as long as a
  // record and a chunk.
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (buffer_.size() < end_ + kCsvChunkBytes) {
    buffer_.resize(end_ + kCsvChunkBytes);
  }
  ASSIGN_OR_RETURN(
      const size_t count,
      stream_.Read(absl::MakeSpan(buffer_.data() + end_, kCsvChunkBytes)));
  end_ += count;
  return count > 0;
}

}  // namespace gpupool::engine
