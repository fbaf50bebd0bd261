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

  // One cell for each column. Tabs and line ends in cells become spaces; an
  // empty cell prints as "-".
  void AddRow(std::vector<std::string> cells);

  size_t rows() const { return rows_.size(); }

  // On a terminal a line that is wider than it is cut at its last column.
  void Print(const Stream& stream, bool headers) const;

 private:
  void PrintAligned(const Stream& stream, bool headers) const;
  void PrintTabs(const Stream& stream, bool headers) const;
  std::string Line(const std::vector<std::string>& cells,
                   const std::vector<size_t>& widths, int limit) const;

  const std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// The number of terminal columns of UTF-8 text: one for each code point.
size_t DisplayWidth(const std::string& text);

// The first `width` columns of `text`; a cut text ends in "…".
std::string Fit(const std::string& text, size_t width);

}  // namespace gpupool::client
