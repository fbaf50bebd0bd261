// A chart of curves as lines of text, for a terminal or for a file. Pure.
#pragma once

#include <string>
#include <vector>

#include "client/cli/output/job_curves.h"

namespace gpupool::client {

struct TextChartSize {
  int columns = 72;  // of the whole chart, at least 24
  int rows = 10;     // of the area of the curves, at least 2
  // Whether lines are drawn with braille patterns, eight dots a character. Else
  // with ASCII.
  bool braille = false;
};

// Returns the chart: a title, the rows with numbers at the left, and the steps.
// The line of a chart is drawn through the means of its points; evaluations are
// marks: o, x, +, ... The axis is logarithmic where NeedsLogarithmicAxis says
// so.
std::vector<std::string> TextChart(const Chart& chart,
                                   const TextChartSize& size);

}  // namespace gpupool::client
