#include "client/cli/simulation/sim_plot.h"

#include <algorithm>
#include <cmath>

#include "client/cli/output/svg_chart.h"

namespace gpupool::client {
namespace {

using scheduler::ReplaySample;

constexpr size_t kPoints = 240;  // per line

// Returns points of (log10 of seconds, share of the jobs that have ended by
// then).
SvgPoints Completed(const std::vector<double>& sorted) {
  SvgPoints points;
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
SvgPoints OverTime(const std::vector<ReplaySample>& samples, Figure figure) {
  SvgPoints points;
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

double Largest(const std::vector<SvgPoints>& lines, bool of_first) {
  double largest = 0;
  for (const SvgPoints& points : lines) {
    for (const auto& [x, y] : points) {
      largest = std::max(largest, of_first ? x : y);
    }
  }
  return largest;
}

}  // namespace

std::string SimPlot(const std::vector<SimResult>& results, uint32_t devices) {
  std::vector<SvgPoints> completed, busy, queued;
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
  const SvgAxis days = LinearAxis(Largest(busy, true), "days");
  std::vector<std::string> policies;
  for (const SimResult& result : results) policies.push_back(result.policy);
  return SvgPicture(
      policies,
      {{"Jobs that have ended",
        LogarithmicAxis(std::max(shortest, 1.0), std::max(longest, 10.0),
                        "seconds from submission to end"),
        LinearAxis(1, "share of the jobs"), completed},
       {"Devices at work", days, LinearAxis(1, "share of the devices"), busy},
       {"Jobs that wait", days,
        LinearAxis(std::max(Largest(queued, false), 4.0), "jobs"), queued}});
}

}  // namespace gpupool::client
