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

// A curve with its name in the legend.
struct NamedLine {
  std::string name;
  const Curve* curve = nullptr;
  bool marked = false;  // whether its points are marked
};

// The lines of one chart of the picture.
struct ChartLines {
  std::string title;
  std::vector<NamedLine> lines;
};

ChartLines LinesOf(const Chart& chart) {
  ChartLines drawn{chart.title, {}};
  if (chart.line != nullptr) {
    drawn.lines.push_back({chart.line_name, chart.line, false});
  }
  for (const auto& [name, curve] : chart.marks) {
    drawn.lines.push_back({name, curve, true});
  }
  return drawn;
}

double LastStep(const std::vector<ChartLines>& charts) {
  double last = 1;
  for (const ChartLines& chart : charts) {
    for (const NamedLine& line : chart.lines) {
      if (line.curve->points().empty()) continue;
      last = std::max(last, line.curve->points().back().step);
    }
  }
  return last;
}

// Adds the chart and the names of its lines. A line has the same number in the
// legend and in its chart, so lines of other charts are empty there.
void AddChart(const ChartLines& chart, const SvgAxis& steps,
              std::vector<std::string>& legend, std::vector<SvgChart>& charts) {
  Range range;
  for (const NamedLine& line : chart.lines) range.Cover(*line.curve);
  const bool logarithmic = NeedsLogarithmicAxis(range.low, range.high);
  SvgChart drawn{
      chart.title, steps,
      logarithmic ? LogarithmicAxis(range.low, range.high, chart.title)
                  : RangeAxis(range.low, range.high, chart.title),
      std::vector<SvgPoints>(legend.size()), std::vector<bool>(legend.size())};
  for (const NamedLine& line : chart.lines) {
    legend.push_back(line.name);
    drawn.lines.push_back(PointsOf(*line.curve, logarithmic));
    drawn.marked.push_back(line.marked);
  }
  charts.push_back(std::move(drawn));
}

std::string Picture(const std::vector<ChartLines>& charts,
                    const std::string& label) {
  const SvgAxis steps = LinearAxis(LastStep(charts), label);
  std::vector<std::string> legend;
  std::vector<SvgChart> drawn;
  for (const ChartLines& chart : charts) {
    AddChart(chart, steps, legend, drawn);
  }
  return SvgPicture(legend, drawn);
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
  std::vector<ChartLines> charts;
  for (const Chart& chart : curves.Charts()) charts.push_back(LinesOf(chart));
  return Picture(charts, absl::StrCat("steps of ", job));
}

std::string LossPicture(
    const std::vector<std::pair<std::string, const Curve*>>& losses,
    const std::string& steps) {
  ChartLines chart{"loss", {}};
  for (const auto& [name, curve] : losses) {
    if (!curve->points().empty()) chart.lines.push_back({name, curve, false});
  }
  if (chart.lines.empty()) return Picture({}, steps);
  return Picture({chart}, steps);
}

}  // namespace gpupool::client
