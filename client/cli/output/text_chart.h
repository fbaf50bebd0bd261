// A chart of curves as lines of text, for a terminal or for a file. Pure.
#pragma once

#include <string>
#include <vector>

#include "client/cli/output/job_curves.h"

namespace gpupool::client {

// The least width of a chart with numbers at the left.
inline constexpr int kLabelledColumns = 24;

struct TextChartSize {
  // Width of the whole chart, at least 1. Below kLabelledColumns the numbers at
  // the left are left out.
  int columns = 72;
  int rows = 10;  // of the area of the curves, at least 2
  // Whether lines are drawn with braille patterns, eight dots a character. Else
  // with ASCII.
  bool braille = false;
};

// Returns the chart: a title, the rows with numbers at the left, and the steps.
// No line is wider than the chart. The line of a chart is drawn through the
// means of its points; evaluations are marks: o, x, +, ... The axis is
// logarithmic where NeedsLogarithmicAxis says so. Returns nothing for a chart
// without points.
std::vector<std::string> TextChart(const Chart& chart,
                                   const TextChartSize& size);

}  // namespace gpupool::client
