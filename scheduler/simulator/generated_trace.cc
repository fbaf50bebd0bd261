#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "scheduler/simulator/random.h"
#include "scheduler/simulator/trace.h"

namespace gpupool::scheduler {
namespace {

// The shares of the trace of Philly (Jeon et al., ATC 2019): 93 % on one.
uint32_t Devices(Random& random, uint32_t most) {
  const double u = random.Uniform();
  const uint32_t wanted = u < 0.93    ? 1
                          : u < 0.955 ? 2
                          : u < 0.978 ? 4
                          : u < 0.997 ? 8
                                      : 16;
  return std::min(wanted, std::max(most, 1u));
}

// Median 20 minutes, mean about four hours, like there.
double RunSeconds(Random& random) {
  constexpr double kMedian = 1200;
  constexpr double kSpread = 2.2;
  constexpr double kLongest = 60 * 86400;
  const double run = kMedian * std::exp(kSpread * random.Normal());
  return std::clamp(run, 1.0, kLongest);
}

}  // namespace

std::vector<TraceJob> GenerateTrace(const GeneratedTrace& options) {
  Random random(options.seed);
  std::vector<TraceJob> jobs(options.jobs);
  double device_seconds = 0;
  for (uint32_t i = 0; i < options.jobs; ++i) {
    jobs[i].name = absl::StrCat(i + 1);
    jobs[i].tenant = absl::StrCat("tenant-", 1 + i % 7);
    jobs[i].devices = Devices(random, options.devices);
    const double run = RunSeconds(random);
    jobs[i].run = absl::Seconds(run);
    device_seconds += run * jobs[i].devices;
  }
  // As long as those devices need for that work at that load, in bursts of
  // some jobs that come together.
  const double span = device_seconds / (options.devices * options.load);
  double at = 0;
  double gaps = 0;
  std::vector<double> submits(options.jobs);
  for (uint32_t i = 0; i < options.jobs; ++i) {
    if (random.Uniform() < 0.3) {
      const double gap = random.Exponential(1);
      at += gap;
      gaps += gap;
    }
    submits[i] = at;
  }
  for (uint32_t i = 0; i < options.jobs; ++i) {
    jobs[i].submit = absl::Seconds(gaps > 0 ? submits[i] / gaps * span : 0);
  }
  return jobs;
}

}  // namespace gpupool::scheduler
