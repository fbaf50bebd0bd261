// Tables: aligned columns under bold headers on a terminal, tab-separated
// lines when piped, so that cut(1) and awk(1) work without counting spaces.
//
// Thread-safety: a Table belongs to one thread.
#pragma once

#include <string>
#include <vector>

#include "client/cli/output/console.h"

namespace gpupool::client {

class Table {
 public:
  enum Align { kLeft, kRight };
  struct Column {
    std::string header;  // upper case
    Align align = kLeft;
  };

  explicit Table(std::vector<Column> columns);

  // Adds a row with one cell for each column. Tabs and line ends in cells
  // become spaces. An empty cell prints as "-".
  void AddRow(std::vector<std::string> cells);

  size_t rows() const { return rows_.size(); }

  // Prints the table. On a terminal, lines that are too wide are cut in their
  // last column.
  void Print(const Stream& stream, bool headers) const;

 private:
  void PrintAligned(const Stream& stream, bool headers) const;
  void PrintTabs(const Stream& stream, bool headers) const;
  std::string Line(const std::vector<std::string>& cells,
                   const std::vector<size_t>& widths, int limit) const;

  const std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Returns the number of terminal columns of UTF-8 text: one per code point.
size_t DisplayWidth(const std::string& text);

// Returns the first `width` columns of `text`. A cut text ends in "…".
std::string Fit(const std::string& text, size_t width);

}  // namespace gpupool::client
