// A picture of replays as SVG: what share of the jobs has ended how long after
// its submission, and how many devices were busy and jobs waited over time.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/cli/simulation/sim_result.h"

namespace gpupool::client {

// At most about 8 kB a result.
std::string SimPlot(const std::vector<SimResult>& results, uint32_t devices);

}  // namespace gpupool::client
