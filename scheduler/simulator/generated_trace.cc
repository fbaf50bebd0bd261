#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "scheduler/simulator/random.h"
#include "scheduler/simulator/trace.h"

namespace gpupool::scheduler {
namespace {

// Returns a number of devices by the shares of the Philly trace (Jeon et al.,
// ATC 2019): 93 % of jobs use one.
uint32_t Devices(Random& random, uint32_t most) {
  const double u = random.Uniform();
  const uint32_t wanted = u < 0.93    ? 1
                          : u < 0.955 ? 2
                          : u < 0.978 ? 4
                          : u < 0.997 ? 8
                                      : 16;
  return std::min(wanted, std::max(most, 1u));
}

// Returns a log-normal run time with the median and mean of the Philly trace:
// 20 minutes and about four hours.
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
  // The span in which the devices do that work at that load. Jobs come in
  // bursts: only three in ten advance the time.
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
