// Summary of a replay: the figures that scheduling papers compare.
//
// Thread-safety: values; pure.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/simulator/replay.h"

namespace gpupool::scheduler {

// Figures of a replay. Times are in seconds. JCT, the job completion time, is
// the time from submission to end.
struct ReplaySummary {
  uint64_t jobs = 0;
  double mean_jct_s = 0;
  double p50_jct_s = 0;  // JCT at index floor(0.5 n) of the n sorted ones
  double p99_jct_s = 0;  // the one at floor(0.99 n)
  double mean_wait_s = 0;
  double makespan_s = 0;
  double utilization = 0;          // as in ReplayResult
  double arrival_utilization = 0;  // as in ReplayResult
  double fragmentation = 0;        // as in ReplayResult
  uint64_t preemptions = 0;
  uint64_t moves = 0;
  uint64_t events = 0;
};

// Returns the summary of all jobs, up to the end of the last one.
ReplaySummary Summarize(const ReplayResult& result);

// Returns the completion times in seconds, in ascending order.
std::vector<double> SortedCompletions(const ReplayResult& result);

}  // namespace gpupool::scheduler
