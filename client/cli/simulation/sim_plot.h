// An SVG picture of replays: the share of jobs that have ended, by time since
// submission, and the number of busy devices and waiting jobs over time. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/cli/simulation/sim_result.h"

namespace gpupool::client {

// Returns the picture, at most about 8 kB per result.
std::string SimPlot(const std::vector<SimResult>& results, uint32_t devices);

}  // namespace gpupool::client
