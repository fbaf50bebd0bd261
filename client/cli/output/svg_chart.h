// Charts of lines as an SVG picture, one below the other. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace gpupool::client {

// Returns `text` as the content of an element, with & and < escaped.
std::string SvgText(absl::string_view text);

using SvgPoints = std::vector<std::pair<double, double>>;

struct SvgTick {
  double at = 0;
  std::string label;
};

struct SvgAxis {
  double first = 0;
  double last = 1;
  std::vector<SvgTick> ticks;
  std::string label;

  // Returns the position of `value` along the axis, 0 to 1.
  double Share(double value) const;
};

// Returns an axis from 0 to at least `most`, with four to ten ticks at round
// numbers.
SvgAxis LinearAxis(double most, std::string label);
// Returns an axis around `least` and `most` with ticks at round numbers.
SvgAxis RangeAxis(double least, double most, std::string label);
// Returns a logarithmic axis with ticks at powers of ten. Its values are
// logarithms to base 10; `least` and `most` are powers, both above 0.
SvgAxis LogarithmicAxis(double least, double most, std::string label);

struct SvgChart {
  std::string title;
  SvgAxis horizontal;
  SvgAxis vertical;
  std::vector<SvgPoints> lines;  // of the legend, in its order
  // Whether the points of a line are marked, by line; may be shorter.
  std::vector<bool> marked = {};
};

// Returns a picture of charts with one legend for their lines.
std::string SvgPicture(const std::vector<std::string>& legend,
                       const std::vector<SvgChart>& charts);

}  // namespace gpupool::client
