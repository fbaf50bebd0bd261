#include "client/cli/output/svg_chart.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace gpupool::client {
namespace {

// Colours that colour-blind people can tell apart (Okabe and Ito, 2008).
constexpr const char* kColors[] = {"#0072b2", "#d55e00", "#009e73",
                                   "#cc79a7", "#e69f00", "#56b4e9"};
constexpr const char* kDashes[] = {"", "6 2", "2 2"};
constexpr double kWidth = 760;
constexpr double kLeft = 70;
constexpr double kRight = 20;
constexpr double kPanel = 190;  // height of a panel
constexpr double kPitch = 265;  // from one panel to the next
constexpr double kTop = 65;
constexpr double kNotePitch = 17;

std::string Number(double value) {
  return value >= 1e6 ? absl::StrFormat("%.4gM", value / 1e6)
                      : absl::StrFormat("%.6g", value);
}

std::string Text(double x, double y, absl::string_view anchor,
                 absl::string_view text) {
  return absl::StrFormat(
      "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y,
      anchor, SvgText(text));
}

// Returns about four to ten steps of round numbers for a range.
double RoundStep(double range) {
  double step = std::pow(10.0, std::floor(std::log10(range)));
  if (range / step < 2) step /= 5;
  if (range / step < 5) step /= 2;
  return step;
}

// Maps the values of a chart to places in the picture.
struct Area {
  const SvgChart& chart;
  double top;

  double bottom() const { return top + kPanel; }
  double right() const { return kWidth - kRight; }
  double X(double value) const {
    return kLeft + (right() - kLeft) * chart.horizontal.Share(value);
  }
  double Y(double value) const {
    return bottom() - kPanel * chart.vertical.Share(value);
  }
};

std::string Grid(const Area& area) {
  std::string svg;
  for (const SvgTick& tick : area.chart.horizontal.ticks) {
    absl::StrAppendFormat(&svg, "<path class=\"g\" d=\"M%.1f %.1fV%.1f\"/>\n",
                          area.X(tick.at), area.top, area.bottom());
    svg += Text(area.X(tick.at), area.bottom() + 16, "middle", tick.label);
  }
  for (const SvgTick& tick : area.chart.vertical.ticks) {
    absl::StrAppendFormat(&svg, "<path class=\"g\" d=\"M%.1f %.1fH%.1f\"/>\n",
                          kLeft, area.Y(tick.at), area.right());
    svg += Text(kLeft - 6, area.Y(tick.at) + 4, "end", tick.label);
  }
  return svg;
}

std::string Line(const Area& area, size_t number) {
  const SvgPoints& points = area.chart.lines[number];
  if (points.empty()) return "";
  std::string svg = absl::StrFormat("<path class=\"l%d\" d=\"", number);
  char command = 'M';
  for (const auto& [x, y] : points) {
    absl::StrAppendFormat(&svg, "%c%.1f %.1f", std::exchange(command, 'L'),
                          area.X(x), area.Y(y));
  }
  svg += "\"/>\n";
  const auto& marked = area.chart.marked;
  if (number >= marked.size() || !marked[number]) return svg;
  for (const auto& [x, y] : points) {
    absl::StrAppendFormat(
        &svg, "<circle class=\"l%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>\n",
        number, area.X(x), area.Y(y));
  }
  return svg;
}

// Returns a dot and its text, which is inside the panel: below the dot, or
// above one at the bottom.
std::string PointLabel(const Area& area, const SvgLabel& label) {
  const double x = area.X(label.x), y = area.Y(label.y);
  const double share = area.chart.horizontal.Share(label.x);
  const char* anchor = share < 0.2 ? "start" : share > 0.8 ? "end" : "middle";
  return absl::StrCat(
      absl::StrFormat("<circle class=\"p\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>\n",
                      x, y),
      Text(x, y + 20 > area.bottom() ? y - 8 : y + 18, anchor, label.text));
}

// Returns axes, grid, labels and lines.
std::string Panel(const Area& area) {
  const SvgChart& chart = area.chart;
  std::string svg = absl::StrFormat(
      "<text x=\"%.0f\" y=\"%.1f\" font-weight=\"bold\">%s</text>\n", kLeft,
      area.top - 10, SvgText(chart.title));
  svg += Grid(area);
  svg += Text((kLeft + area.right()) / 2, area.bottom() + 34, "middle",
              chart.horizontal.label);
  absl::StrAppendFormat(&svg,
                        "<text transform=\"translate(16 %.1f) rotate(-90)\" "
                        "text-anchor=\"middle\">%s</text>\n",
                        area.top + kPanel / 2, SvgText(chart.vertical.label));
  for (size_t i = 0; i < chart.lines.size(); ++i) svg += Line(area, i);
  for (const SvgLabel& label : chart.labels) svg += PointLabel(area, label);
  return svg;
}

std::string Sheet(size_t lines, const std::vector<bool>& dashed) {
  std::string css =
      "text{font:12px sans-serif;fill:#333}"
      ".g{stroke:#ddd;fill:none}"
      ".p{fill:#333}"
      "[class^=l]{fill:none;stroke-width:1.6;stroke-linejoin:round}";
  for (size_t i = 0; i < lines; ++i) {
    const bool dash = i < dashed.size() && dashed[i];
    const char* const dashes = dash ? kDashes[1] : kDashes[i / 6 % 3];
    absl::StrAppendFormat(&css, ".l%d{stroke:%s;stroke-dasharray:%s}", i,
                          kColors[i % std::size(kColors)],
                          *dashes == 0 ? "none" : dashes);
  }
  return absl::StrCat("<style>", css, "</style>\n");
}

// Begins another row when a name does not fit. There is space for two rows.
std::string Legend(const std::vector<std::string>& names) {
  std::string svg;
  double x = kLeft, y = 21;
  for (size_t i = 0; i < names.size(); ++i) {
    const double width = 50 + 8 * static_cast<double>(names[i].size());
    if (x > kLeft && x + width > kWidth) {
      x = kLeft;
      y += 18;
    }
    absl::StrAppendFormat(&svg, "<path class=\"l%d\" d=\"M%.1f %.0fh24\"/>\n",
                          i, x, y);
    svg += Text(x + 30, y + 4, "start", names[i]);
    x += width;
  }
  return svg;
}

}  // namespace

std::string SvgText(absl::string_view text) {
  std::string allowed(text);
  for (char& c : allowed) {
    const bool space = c == '\t' || c == '\n' || c == '\r';
    if (static_cast<unsigned char>(c) < 0x20 && !space) c = '?';
  }
  return absl::StrReplaceAll(allowed, {{"&", "&amp;"}, {"<", "&lt;"}});
}

SvgByteUnit ByteUnitFor(uint64_t most) {
  constexpr SvgByteUnit kUnits[] = {
      {1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}};
  for (const SvgByteUnit& unit : kUnits) {
    if (static_cast<double>(most) >= unit.bytes) return unit;
  }
  return {};
}

double SvgAxis::Share(double value) const {
  if (!(last > first)) return 0;
  return std::clamp((value - first) / (last - first), 0.0, 1.0);
}

SvgAxis LinearAxis(double most, std::string label) {
  SvgAxis axis{.last = std::max(most, 1e-9), .ticks = {}, .label = label};
  const double step = RoundStep(axis.last);
  const double steps = std::ceil(axis.last / step - 1e-9);
  axis.last = steps * step;
  for (int i = 0; i <= static_cast<int>(steps); ++i) {
    axis.ticks.push_back({i * step, Number(i * step)});
  }
  return axis;
}

SvgAxis RangeAxis(double least, double most, std::string label) {
  // Ticks of a smaller range would have equal numbers.
  const double size = std::max(std::abs(least), std::abs(most));
  const double room =
      most - least > 1e-9 * size ? 0 : std::max(size / 10, 1e-9);
  const double step = RoundStep(most - least + 2 * room);
  const double first = std::floor((least - room) / step + 1e-9);
  const double last = std::ceil((most + room) / step - 1e-9);
  SvgAxis axis{first * step, last * step, {}, std::move(label)};
  for (double i = first; i <= last; ++i) {
    axis.ticks.push_back({i * step, Number(i * step)});
  }
  return axis;
}

SvgAxis LogarithmicAxis(double least, double most, std::string label) {
  const double first = std::floor(std::log10(least) + 1e-9);
  const double last = std::max(std::ceil(std::log10(most) - 1e-9), first + 1);
  SvgAxis axis{
      .first = first, .last = last, .ticks = {}, .label = std::move(label)};
  for (double power = first; power <= last; ++power) {
    axis.ticks.push_back({power, Number(std::pow(10.0, power))});
  }
  return axis;
}

std::string SvgPicture(const std::vector<std::string>& legend,
                       const std::vector<SvgChart>& charts,
                       const SvgOptions& options) {
  const std::vector<std::string>& notes = options.notes;
  const double bottom = kTop + static_cast<double>(charts.size()) * kPitch - 20;
  std::string svg = absl::StrCat(
      absl::StrFormat("<svg xmlns=\"http://www.w3.org/2000/svg\" "
                      "viewBox=\"0 0 %.0f %.0f\">\n",
                      kWidth,
                      bottom + static_cast<double>(notes.size()) * kNotePitch),
      Sheet(legend.size(), options.dashed),
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n", Legend(legend));
  double top = kTop;
  for (const SvgChart& chart : charts) {
    svg += Panel({chart, top});
    top += kPitch;
  }
  double y = bottom;
  for (const std::string& note : notes) {
    svg += Text(kLeft, y, "start", note);
    y += kNotePitch;
  }
  return svg + "</svg>\n";
}

}  // namespace gpupool::client
