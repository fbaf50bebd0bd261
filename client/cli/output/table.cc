#include "client/cli/output/table.h"

#include <algorithm>
#include <ostream>
#include <utility>

#include "absl/strings/str_join.h"

namespace gpupool::client {
namespace {

bool StartsCodePoint(char byte) { return (byte & 0xC0) != 0x80; }

std::vector<std::string> Headers(const std::vector<Table::Column>& columns) {
  std::vector<std::string> headers;
  for (const Table::Column& column : columns) headers.push_back(column.header);
  return headers;
}

}  // namespace

size_t DisplayWidth(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), StartsCodePoint));
}

std::string Fit(const std::string& text, size_t width) {
  if (DisplayWidth(text) <= width) return text;
  if (width == 0) return "";
  size_t columns = 0;
  size_t end = 0;
  for (; end < text.size(); ++end) {
    if (StartsCodePoint(text[end]) && columns++ == width - 1) break;
  }
  return text.substr(0, end) + "…";
}

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::AddRow(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  for (std::string& cell : cells) {
    for (char& letter : cell) {
      if (letter == '\t' || letter == '\n' || letter == '\r') letter = ' ';
    }
    if (cell.empty()) cell.assign(1, '-');
  }
  rows_.push_back(std::move(cells));
}

void Table::Print(const Stream& stream, bool headers) const {
  if (stream.is_terminal) {
    PrintAligned(stream, headers);
  } else {
    PrintTabs(stream, headers);
  }
}

void Table::PrintTabs(const Stream& stream, bool headers) const {
  std::ostream& out = *stream.stream;
  if (headers) out << absl::StrJoin(Headers(columns_), "\t") << "\n";
  for (const auto& row : rows_) out << absl::StrJoin(row, "\t") << "\n";
}

void Table::PrintAligned(const Stream& stream, bool headers) const {
  std::vector<size_t> widths(columns_.size(), 0);
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (headers) widths[i] = DisplayWidth(columns_[i].header);
    for (const auto& row : rows_) {
      widths[i] = std::max(widths[i], DisplayWidth(row[i]));
    }
  }
  if (headers) {
    *stream.stream << Paint(stream, Style::kBold,
                            Line(Headers(columns_), widths, stream.width))
                   << "\n";
  }
  for (const auto& row : rows_) {
    *stream.stream << Line(row, widths, stream.width) << "\n";
  }
}

std::string Table::Line(const std::vector<std::string>& cells,
                        const std::vector<size_t>& widths, int limit) const {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) line += "  ";
    const std::string fill(widths[i] - DisplayWidth(cells[i]), ' ');
    if (columns_[i].align == kRight) {
      line += fill + cells[i];
    } else {
      line += cells[i];
      if (i + 1 < cells.size()) line += fill;
    }
  }
  return Fit(line, static_cast<size_t>(std::max(limit, 20)));
}

}  // namespace gpupool::client
