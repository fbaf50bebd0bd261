#include "scheduler/simulator/summary.h"

#include <algorithm>
#include <numeric>

namespace gpupool::scheduler {
namespace {

double AtShare(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto index =
      static_cast<size_t>(share * static_cast<double>(sorted.size()));
  return sorted[std::min(index, sorted.size() - 1)];
}

}  // namespace

std::vector<double> SortedCompletions(const ReplayResult& result) {
  std::vector<double> sorted;
  sorted.reserve(result.jobs.size());
  for (const ReplayedJob& job : result.jobs) {
    sorted.push_back(absl::ToDoubleSeconds(job.completion));
  }
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

ReplaySummary Summarize(const ReplayResult& result) {
  ReplaySummary summary{.jobs = result.jobs.size(),
                        .makespan_s = absl::ToDoubleSeconds(result.makespan),
                        .utilization = result.utilization,
                        .arrival_utilization = result.arrival_utilization,
                        .fragmentation = result.fragmentation,
                        .preemptions = result.preemptions,
                        .moves = result.moves,
                        .events = result.events};
  if (result.jobs.empty()) return summary;
  const std::vector<double> sorted = SortedCompletions(result);
  const auto jobs = static_cast<double>(sorted.size());
  summary.mean_jct_s =
      std::accumulate(sorted.begin(), sorted.end(), 0.0) / jobs;
  summary.p50_jct_s = AtShare(sorted, 0.5);
  summary.p99_jct_s = AtShare(sorted, 0.99);
  for (const ReplayedJob& job : result.jobs) {
    summary.mean_wait_s += absl::ToDoubleSeconds(job.wait) / jobs;
  }
  return summary;
}

}  // namespace gpupool::scheduler
