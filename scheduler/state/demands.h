// Demands of a job on each of its devices, besides kind and bytes. They travel
// as one value from the job's spec through JobRequest, Shape and Need to
// ObstacleFor (obstacle.h). So a new condition on starts is one field here.
//
// Thread-safety: a value.
#pragma once

#include "scheduler/state/host.h"

namespace gpupool::scheduler {

struct Demands {
  HostNeed host = {};      // host need for each device
  bool exclusive = false;  // shares its devices with nothing
  friend auto operator<=>(const Demands&, const Demands&) = default;
};

}  // namespace gpupool::scheduler
