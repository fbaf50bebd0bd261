// What `gpupool sim fill` prints: a line, or an object, for each placement.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/cli/output/table.h"
#include "scheduler/simulator/fill.h"

namespace gpupool::client {

struct Fills {
  std::string placement;
  double seconds = 0;  // that they took in all
  struct OfSeed {
    uint64_t seed = 0;
    scheduler::FillResult result;
  };
  std::vector<OfSeed> seeds;  // at least one
};

// Shares are means over the seeds.
Table FillTable(const std::vector<Fills>& fills);

// An object for one placement, an array of objects for several, each with the
// means and, under `seeds`, what they are of. With a line end.
std::string FillJson(const std::vector<Fills>& fills);

}  // namespace gpupool::client
