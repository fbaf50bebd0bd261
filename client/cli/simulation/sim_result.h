// What `gpupool sim` prints: a line, or an object, for each policy. Pure.
#pragma once

#include <string>
#include <vector>

#include "client/cli/output/table.h"
#include "scheduler/simulator/replay.h"
#include "scheduler/simulator/summary.h"

namespace gpupool::client {

struct SimResult {
  std::string policy;
  scheduler::ReplaySummary summary;
  double seconds = 0;  // that the replay took
  scheduler::ReplayResult replay;

  double decisions_per_second() const;
};

Table SimTable(const std::vector<SimResult>& results);

// An object for one result, an array of objects for several. With a line end.
std::string SimJson(const std::vector<SimResult>& results);
// The same as YAML.
std::string SimYaml(const std::vector<SimResult>& results);

}  // namespace gpupool::client
