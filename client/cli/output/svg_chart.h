// Charts of lines as an SVG picture, one below the other. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace gpupool::client {

// Returns `text` as the content of an element: & and < are escaped, and
// characters that XML does not allow become '?'.
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

// A unit of bytes for an axis.
struct SvgByteUnit {
  double bytes = 1;
  const char* name = "bytes";

  double Of(uint64_t count) const { return static_cast<double>(count) / bytes; }
};
// Returns the largest unit (bytes, KiB, MiB, GiB) that is at most `most`.
SvgByteUnit ByteUnitFor(uint64_t most);

// A marked point with a text beside it.
struct SvgLabel {
  double x = 0;
  double y = 0;
  std::string text;
};

struct SvgChart {
  std::string title;
  SvgAxis horizontal;
  SvgAxis vertical;
  std::vector<SvgPoints> lines;  // of the legend, in its order
  // Whether the points of a line are marked, by line; may be shorter.
  std::vector<bool> marked = {};
  std::vector<SvgLabel> labels = {};
};

struct SvgOptions {
  std::vector<std::string> notes;  // lines of text below the charts
  // Whether a line is dashed, by line; may be shorter.
  std::vector<bool> dashed = {};
};

// Returns a picture of charts with one legend for their lines.
std::string SvgPicture(const std::vector<std::string>& legend,
                       const std::vector<SvgChart>& charts,
                       const SvgOptions& options = {});

}  // namespace gpupool::client
