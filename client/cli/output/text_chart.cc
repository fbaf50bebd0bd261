#include "client/cli/output/text_chart.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/output/table.h"
#include "client/text/units.h"

namespace gpupool::client {
namespace {

constexpr int kLabel = 10;  // columns of the numbers at the left
constexpr char kMarks[] = "ox+*#@";

// The ranges of steps and values that the area shows.
struct Range {
  double first = std::numeric_limits<double>::infinity();
  double last = -std::numeric_limits<double>::infinity();
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  bool logarithmic = false;

  void Cover(const Curve& curve) {
    for (const CurvePoint& point : curve.points()) {
      first = std::min(first, point.step);
      last = std::max(last, point.step);
      low = std::min(low, point.value);
      high = std::max(high, point.value);
    }
  }
  bool empty() const { return last < first; }

  // Returns positions from 0 to 1.
  double X(double step) const {
    return last > first ? (step - first) / (last - first) : 0;
  }
  double Y(double value) const {
    if (!(high > low)) return 0.5;
    if (!logarithmic) return (value - low) / (high - low);
    return std::log(value / low) / std::log(high / low);
  }
  double ValueAt(double y) const {
    return logarithmic ? low * std::pow(high / low, y) : low + (high - low) * y;
  }
};

Range RangeOf(const Chart& chart) {
  Range range;
  if (chart.line != nullptr) range.Cover(*chart.line);
  for (const auto& [name, curve] : chart.marks) range.Cover(*curve);
  range.logarithmic = NeedsLogarithmicAxis(range.low, range.high);
  return range;
}

// Returns the index of a cell for a position from 0 to 1.
int Cell(double position, int cells) {
  const int cell = static_cast<int>(std::lround(position * (cells - 1)));
  return std::clamp(cell, 0, cells - 1);
}

// A grid of dots; rows count from the top.
class Dots {
 public:
  Dots(int width, int height)
      : width_(width),
        height_(height),
        dots_(static_cast<size_t>(width * height)) {}

  int width() const { return width_; }
  int height() const { return height_; }
  bool at(int x, int y) const { return dots_[Index(x, y)]; }
  void Set(int x, int y) { dots_[Index(x, y)] = true; }

  // Connects two points that are in their own columns or neighbours.
  void Connect(int x0, int y0, int x1, int y1) {
    const int steps = std::max({std::abs(x1 - x0), std::abs(y1 - y0), 1});
    for (int i = 0; i <= steps; ++i) {
      const double t = static_cast<double>(i) / steps;
      Set(static_cast<int>(std::lround(x0 + t * (x1 - x0))),
          static_cast<int>(std::lround(y0 + t * (y1 - y0))));
    }
  }

 private:
  size_t Index(int x, int y) const {
    return static_cast<size_t>(y * width_ + x);
  }

  const int width_;
  const int height_;
  std::vector<bool> dots_;
};

// Draws the line through the means of the points of each column.
void DrawLine(const Curve& curve, const Range& range, Dots& dots) {
  const int width = dots.width(), height = dots.height();
  struct Mean {
    double sum = 0;
    int count = 0;
  };
  std::vector<Mean> means(static_cast<size_t>(width));
  for (const CurvePoint& point : curve.points()) {
    Mean& mean = means[static_cast<size_t>(Cell(range.X(point.step), width))];
    mean.sum += point.value;
    ++mean.count;
  }
  std::optional<std::pair<int, int>> before;
  for (int x = 0; x < width; ++x) {
    const Mean& mean = means[static_cast<size_t>(x)];
    if (mean.count == 0) continue;
    const int y = height - 1 - Cell(range.Y(mean.sum / mean.count), height);
    if (!before.has_value()) before = {x, y};
    dots.Connect(before->first, before->second, x, y);
    before = {x, y};
  }
}

// Returns the UTF-8 of the pattern for a cell of two by four dots.
std::string Braille(const Dots& dots, int column, int row) {
  // Bits of the dots from the top down, left and right (Unicode, block 2800).
  constexpr unsigned kBits[4][2] = {
      {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
  unsigned pattern = 0;
  for (int y = 0; y < 4; ++y) {
    for (int x = 0; x < 2; ++x) {
      if (dots.at(2 * column + x, 4 * row + y)) pattern |= kBits[y][x];
    }
  }
  if (pattern == 0) return " ";
  const unsigned code = 0x2800 + pattern;
  return {static_cast<char>(0xE0 | code >> 12),
          static_cast<char>(0x80 | (code >> 6 & 0x3F)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

std::string Title(const Chart& chart, const Range& range, bool braille) {
  std::string title = chart.title;
  if (range.logarithmic) title += " (logarithmic)";
  if (chart.line != nullptr && !chart.line->points().empty()) {
    absl::StrAppend(&title, "  ", braille ? "⠒" : "*", " ", chart.line_name,
                    " ", FormatLoss(chart.line->points().back().value));
  }
  size_t mark = 0;
  for (const auto& [name, curve] : chart.marks) {
    absl::StrAppend(&title, "  ",
                    std::string(1, kMarks[mark++ % (sizeof(kMarks) - 1)]), " ",
                    name, " ", FormatLoss(curve->points().back().value));
  }
  return title;
}

// Returns the number at the left of a row, or blanks. A range whose ends have
// the same number has it once, where a value in the middle is drawn.
std::string Label(const Range& range, int row, int rows) {
  const bool flat =
      FormatLoss(range.ValueAt(0)) == FormatLoss(range.ValueAt(1));
  const bool shown =
      flat ? row == rows - 1 - Cell(0.5, rows)
           : row == 0 || row == rows - 1 || (rows > 6 && row == rows / 2);
  if (!shown) return std::string(kLabel, ' ');
  const double y = 1 - static_cast<double>(row) / (rows - 1);
  return absl::StrFormat("%*s ", kLabel - 1, FormatLoss(range.ValueAt(y)));
}

// Returns the line under the area: the first and the last step, or the only
// one.
std::string StepsLine(const Range& range, int columns) {
  const std::string last = absl::StrFormat("step %.0f", range.last);
  if (!(range.last > range.first)) return last;
  const std::string first = absl::StrFormat("%.0f", range.first);
  const int gap = columns - static_cast<int>(first.size() + last.size());
  return absl::StrCat(
      first, std::string(static_cast<size_t>(std::max(gap, 1)), ' '), last);
}

// The characters of the area, by row and column; empty strings are blank.
using Cells = std::vector<std::vector<std::string>>;

Cells CellsOf(const Chart& chart, const Range& range, int columns,
              const TextChartSize& size) {
  const int width = size.braille ? 2 * columns : columns;
  const int height = size.braille ? 4 * size.rows : size.rows;
  Dots dots(width, height);
  if (chart.line != nullptr) {
    DrawLine(*chart.line, range, dots);
  }
  Cells cells(static_cast<size_t>(size.rows),
              std::vector<std::string>(static_cast<size_t>(columns), " "));
  for (int row = 0; row < size.rows; ++row) {
    for (int column = 0; column < columns; ++column) {
      std::string& cell =
          cells[static_cast<size_t>(row)][static_cast<size_t>(column)];
      if (size.braille) {
        cell = Braille(dots, column, row);
      } else if (dots.at(column, row)) {
        cell = "*";
      }
    }
  }
  size_t mark = 0;
  for (const auto& [name, curve] : chart.marks) {
    const std::string symbol(1, kMarks[mark++ % (sizeof(kMarks) - 1)]);
    for (const CurvePoint& point : curve->points()) {
      const int row = size.rows - 1 - Cell(range.Y(point.value), size.rows);
      cells[static_cast<size_t>(row)]
           [static_cast<size_t>(Cell(range.X(point.step), columns))] = symbol;
    }
  }
  return cells;
}

}  // namespace

std::vector<std::string> TextChart(const Chart& chart,
                                   const TextChartSize& asked) {
  TextChartSize size = asked;
  size.columns = std::max(size.columns, 1);
  size.rows = std::max(size.rows, 2);
  const Range range = RangeOf(chart);
  if (range.empty()) return {};
  const bool labelled = size.columns >= kLabelledColumns;
  const int left = labelled ? kLabel + 1 : 0;
  const int columns = size.columns - left;
  std::vector<std::string> lines = {Fit(Title(chart, range, size.braille),
                                        static_cast<size_t>(size.columns))};
  const Cells cells = CellsOf(chart, range, columns, size);
  for (int row = 0; row < size.rows; ++row) {
    std::string line;
    if (labelled) {
      line =
          absl::StrCat(Label(range, row, size.rows), size.braille ? "│" : "|");
    }
    for (const std::string& cell : cells[static_cast<size_t>(row)]) {
      line += cell;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  lines.push_back(absl::StrCat(
      std::string(static_cast<size_t>(left), ' '),
      Fit(StepsLine(range, columns), static_cast<size_t>(columns))));
  return lines;
}

}  // namespace gpupool::client
