#include "client/cli/simulation/sim_plot.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace gpupool::client {
namespace {

using scheduler::ReplaySample;

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
constexpr size_t kPoints = 240;  // per line

using Points = std::vector<std::pair<double, double>>;

struct Tick {
  double at = 0;
  std::string label;
};

struct Axis {
  double first = 0;
  double last = 1;
  std::vector<Tick> ticks;
  std::string label;
  // Returns the position of `value` along the axis, 0 to 1.
  double Share(double value) const {
    if (!(last > first)) return 0;
    return std::clamp((value - first) / (last - first), 0.0, 1.0);
  }
};

std::string Number(double value) {
  return value >= 1e6 ? absl::StrFormat("%.4gM", value / 1e6)
                      : absl::StrFormat("%.6g", value);
}

// Returns an axis from 0 to at least `most`, with four to ten ticks at round
// numbers.
Axis Linear(double most, std::string label) {
  Axis axis{.last = std::max(most, 1e-9), .ticks = {}, .label = label};
  double step = std::pow(10.0, std::floor(std::log10(axis.last)));
  if (axis.last / step < 2) step /= 5;
  if (axis.last / step < 5) step /= 2;
  const double steps = std::ceil(axis.last / step - 1e-9);
  axis.last = steps * step;
  for (int i = 0; i <= static_cast<int>(steps); ++i) {
    axis.ticks.push_back({i * step, Number(i * step)});
  }
  return axis;
}

// Returns a logarithmic axis of seconds with ticks at powers of ten.
Axis Logarithmic(double least, double most) {
  const double first = std::floor(std::log10(std::max(least, 1.0)));
  const double last =
      std::max(std::ceil(std::log10(std::max(most, 10.0))), first + 1);
  Axis axis{.first = first,
            .last = last,
            .ticks = {},
            .label = "seconds from submission to end"};
  for (double power = first; power <= last; ++power) {
    axis.ticks.push_back({power, Number(std::pow(10.0, power))});
  }
  return axis;
}

std::string Text(double x, double y, absl::string_view anchor,
                 absl::string_view text) {
  return absl::StrFormat(
      "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y,
      anchor, text);
}

// Returns axes, grid, labels and one line for each of `lines`.
std::string Panel(double top, absl::string_view title,
                  const std::pair<Axis, Axis>& axes,
                  const std::vector<Points>& lines) {
  const Axis& horizontal = axes.first;
  const Axis& vertical = axes.second;
  const double width = kWidth - kLeft - kRight;
  const double bottom = top + kPanel;
  const auto x = [&](double v) { return kLeft + width * horizontal.Share(v); };
  const auto y = [&](double v) { return bottom - kPanel * vertical.Share(v); };
  std::string svg = absl::StrFormat(
      "<text x=\"%.0f\" y=\"%.1f\" font-weight=\"bold\">%s</text>\n", kLeft,
      top - 10, title);
  for (const Tick& tick : horizontal.ticks) {
    absl::StrAppendFormat(&svg, "<path class=\"g\" d=\"M%.1f %.1fV%.1f\"/>\n",
                          x(tick.at), top, bottom);
    svg += Text(x(tick.at), bottom + 16, "middle", tick.label);
  }
  for (const Tick& tick : vertical.ticks) {
    absl::StrAppendFormat(&svg, "<path class=\"g\" d=\"M%.1f %.1fH%.1f\"/>\n",
                          kLeft, y(tick.at), kLeft + width);
    svg += Text(kLeft - 6, y(tick.at) + 4, "end", tick.label);
  }
  svg += Text(kLeft + width / 2, bottom + 34, "middle", horizontal.label);
  absl::StrAppendFormat(&svg,
                        "<text transform=\"translate(16 %.1f) rotate(-90)\" "
                        "text-anchor=\"middle\">%s</text>\n",
                        top + kPanel / 2, vertical.label);
  for (size_t i = 0; i < lines.size(); ++i) {
    absl::StrAppendFormat(&svg, "<path class=\"l%d\" d=\"", i);
    char command = 'M';
    for (const auto& [px, py] : lines[i]) {
      absl::StrAppendFormat(&svg, "%c%.1f %.1f", std::exchange(command, 'L'),
                            x(px), y(py));
    }
    svg += "\"/>\n";
  }
  return svg;
}

// Returns points of (log10 of seconds, share of the jobs that have ended by
// then).
Points Completed(const std::vector<double>& sorted) {
  Points points;
  if (sorted.empty()) return points;
  const size_t count = std::min(kPoints, sorted.size());
  for (size_t i = 0; i < count; ++i) {
    const size_t index = count == 1 ? 0 : i * (sorted.size() - 1) / (count - 1);
    const auto ended = static_cast<double>(index + 1);
    points.emplace_back(std::log10(std::max(sorted[index], 1.0)),
                        ended / static_cast<double>(sorted.size()));
  }
  return points;
}

// Returns points of (days, mean of the figure around that time).
template <typename Figure>
Points OverTime(const std::vector<ReplaySample>& samples, Figure figure) {
  Points points;
  const size_t count = std::min(kPoints, samples.size());
  for (size_t i = 0; i < count; ++i) {
    const size_t first = i * samples.size() / count;
    const size_t end = (i + 1) * samples.size() / count;
    double sum = 0;
    for (size_t k = first; k < end; ++k) sum += figure(samples[k]);
    points.emplace_back(absl::ToDoubleHours(samples[first].at) / 24,
                        sum / static_cast<double>(end - first));
  }
  return points;
}

double Largest(const std::vector<Points>& lines, bool of_first) {
  double largest = 0;
  for (const Points& points : lines) {
    for (const auto& [x, y] : points) {
      largest = std::max(largest, of_first ? x : y);
    }
  }
  return largest;
}

std::string Sheet(size_t lines) {
  std::string css =
      "text{font:12px sans-serif;fill:#333}"
      ".g{stroke:#ddd;fill:none}"
      "[class^=l]{fill:none;stroke-width:1.6;stroke-linejoin:round}";
  for (size_t i = 0; i < lines; ++i) {
    absl::StrAppendFormat(
        &css, ".l%d{stroke:%s;stroke-dasharray:%s}", i,
        kColors[i % std::size(kColors)],
        *kDashes[i / 6 % 3] == 0 ? "none" : kDashes[i / 6 % 3]);
  }
  return absl::StrCat("<style>", css, "</style>\n");
}

std::string Legend(const std::vector<SimResult>& results) {
  std::string svg;
  double x = kLeft;
  for (size_t i = 0; i < results.size(); ++i) {
    absl::StrAppendFormat(&svg, "<path class=\"l%d\" d=\"M%.1f 21h24\"/>\n", i,
                          x);
    svg += Text(x + 30, 25, "start", results[i].policy);
    x += 50 + 8 * static_cast<double>(results[i].policy.size());
  }
  return svg;
}

}  // namespace

std::string SimPlot(const std::vector<SimResult>& results, uint32_t devices) {
  std::vector<Points> completed, busy, queued;
  double shortest = 1e12, longest = 0;
  for (const SimResult& result : results) {
    const std::vector<double> sorted = SortedCompletions(result.replay);
    if (!sorted.empty()) {
      shortest = std::min(shortest, sorted.front());
      longest = std::max(longest, sorted.back());
    }
    completed.push_back(Completed(sorted));
    const auto& samples = result.replay.samples;
    busy.push_back(OverTime(samples, [&](const ReplaySample& sample) {
      return static_cast<double>(sample.busy_devices) / devices;
    }));
    queued.push_back(OverTime(samples, [](const ReplaySample& sample) {
      return static_cast<double>(sample.queued_jobs);
    }));
  }
  const Axis days = Linear(Largest(busy, true), "days");
  const Axis share = Linear(1, "share of the jobs");
  return absl::StrCat(
      absl::StrFormat("<svg xmlns=\"http://www.w3.org/2000/svg\" "
                      "viewBox=\"0 0 %.0f %.0f\">\n",
                      kWidth, kTop + 3 * kPitch - 20),
      Sheet(results.size()),
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n", Legend(results),
      Panel(kTop, "Jobs that have ended",
            {Logarithmic(shortest, longest), share}, completed),
      Panel(kTop + kPitch, "Devices at work",
            {days, Linear(1, "share of the devices")}, busy),
      Panel(kTop + 2 * kPitch, "Jobs that wait",
            {days, Linear(std::max(Largest(queued, false), 4.0), "jobs")},
            queued),
      "</svg>\n");
}

}  // namespace gpupool::client
