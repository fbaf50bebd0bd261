// A trace of a pool: the submitted jobs, their times, devices and run times.
//
// The file is CSV with a header line and one job a line. The columns may stand
// in any order; other columns are ignored:
//
//   job_id      any text, unique; "" or absent: the number of the line
//   submit_s    seconds from the start of the trace, >= 0
//   gpus        devices that run the job together, 1 to kMostTraceDevices
//   duration_s  run time on them in seconds, > 0
//   vc, tenant  who submitted it (optional)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace gpupool::scheduler {

inline constexpr uint32_t kMostTraceDevices = 1 << 16;
inline constexpr size_t kMostTraceJobs = 10'000'000;

struct TraceJob {
  std::string name;
  std::string tenant;
  absl::Duration submit;
  uint32_t devices = 1;
  absl::Duration run;
};

// Returns the jobs in order of submission; jobs of one moment in the order of
// their lines. InvalidArgument names the line, the value and what is allowed.
absl::StatusOr<std::vector<TraceJob>> ParseTrace(absl::string_view csv);

// Parameters of a trace that resembles those of shared clusters. `jobs` are
// submitted in bursts by day. Most run on one device, for seconds to weeks
// (log-normal). `load` is the share of time for which `devices` are busy (0.9:
// 90 %). The same seed gives the same trace.
struct GeneratedTrace {
  uint32_t jobs = 5000;
  uint32_t devices = 64;
  double load = 0.9;
  uint64_t seed = 1;
};
std::vector<TraceJob> GenerateTrace(const GeneratedTrace& options);

}  // namespace gpupool::scheduler
