#include "client/cli/jobs/job_plot.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "client/cli/output/svg_chart.h"
#include "client/cli/output/text_chart.h"

namespace gpupool::client {
namespace {

constexpr int kMostRows = 12;  // of one chart on a terminal
constexpr int kLeastRows = 4;
constexpr int kOtherLines = 2;  // title and steps of a chart
constexpr int kMostColumns = 160;

// The range of the numbers of a chart.
struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void Cover(const Curve& curve) {
    for (const CurvePoint& point : curve.points()) {
      low = std::min(low, point.value);
      high = std::max(high, point.value);
    }
  }
};

SvgPoints PointsOf(const Curve& curve, bool logarithmic) {
  SvgPoints points;
  for (const CurvePoint& point : curve.points()) {
    points.emplace_back(point.step,
                        logarithmic ? std::log10(point.value) : point.value);
  }
  return points;
}

double LastStep(const std::vector<Chart>& charts) {
  double last = 1;
  const auto cover = [&](const Curve& curve) {
    if (!curve.points().empty()) {
      last = std::max(last, curve.points().back().step);
    }
  };
  for (const Chart& chart : charts) {
    if (chart.line != nullptr) cover(*chart.line);
    for (const auto& [name, curve] : chart.marks) cover(*curve);
  }
  return last;
}

// Adds the chart and the names of its lines. A line has the same number in the
// legend and in its chart, so lines of other charts are empty there.
void AddChart(const Chart& chart, const SvgAxis& steps,
              std::vector<std::string>& legend, std::vector<SvgChart>& charts) {
  Range range;
  if (chart.line != nullptr) range.Cover(*chart.line);
  for (const auto& [name, curve] : chart.marks) range.Cover(*curve);
  const bool logarithmic = NeedsLogarithmicAxis(range.low, range.high);
  SvgChart drawn{
      chart.title, steps,
      logarithmic ? LogarithmicAxis(range.low, range.high, chart.title)
                  : RangeAxis(range.low, range.high, chart.title),
      std::vector<SvgPoints>(legend.size()), std::vector<bool>(legend.size())};
  const auto add = [&](const std::string& name, const Curve& curve,
                       bool marked) {
    legend.push_back(name);
    drawn.lines.push_back(PointsOf(curve, logarithmic));
    drawn.marked.push_back(marked);
  };
  if (chart.line != nullptr) add("training", *chart.line, false);
  for (const auto& [name, curve] : chart.marks) {
    add(name, *curve, true);
  }
  charts.push_back(std::move(drawn));
}

}  // namespace

std::vector<std::string> PlotLines(const JobCurves& curves,
                                   const Stream& stream, int room) {
  std::vector<Chart> charts = curves.Charts();
  TextChartSize size;
  if (stream.is_terminal) {
    size.braille = true;
    size.columns = std::min(stream.width - 1, kMostColumns);
    while (!charts.empty()) {
      const int each = room / static_cast<int>(charts.size()) - kOtherLines;
      size.rows = std::min(each, kMostRows);
      if (each >= kLeastRows) break;
      charts.pop_back();
    }
  }
  std::vector<std::string> lines;
  for (const Chart& chart : charts) {
    const std::vector<std::string> drawn = TextChart(chart, size);
    lines.insert(lines.end(), drawn.begin(), drawn.end());
  }
  return lines;
}

std::string PlotPicture(const JobCurves& curves, const std::string& job) {
  const std::vector<Chart> charts = curves.Charts();
  const SvgAxis steps =
      LinearAxis(LastStep(charts), absl::StrCat("steps of ", job));
  std::vector<std::string> legend;
  std::vector<SvgChart> drawn;
  for (const Chart& chart : charts) AddChart(chart, steps, legend, drawn);
  return SvgPicture(legend, drawn);
}

}  // namespace gpupool::client
