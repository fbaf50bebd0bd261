// Output of `gpupool sim fill`: a line, or an object, for each placement. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/cli/output/table.h"
#include "scheduler/simulator/fill.h"

namespace gpupool::client {

struct Fills {
  std::string placement;
  double seconds = 0;  // total run time
  struct OfSeed {
    uint64_t seed = 0;
    scheduler::FillResult result;
  };
  std::vector<OfSeed> seeds;  // at least one
};

// Returns one row for each placement. Shares are means over the seeds.
Table FillTable(const std::vector<Fills>& fills);

// Returns an object for one placement, or an array of objects for several, with
// a line end. Each has the means and, under `seeds`, the figures of each seed.
std::string FillJson(const std::vector<Fills>& fills);

}  // namespace gpupool::client
