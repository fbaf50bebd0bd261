// What a job demands of each of its devices beside kind and bytes. It travels
// as one value from the job's spec through JobSubmitted, Job, Shape and Need to
// ObstacleFor (obstacle.h), so that a new condition on starts is a field here.
//
// Thread-safety: a value.
#pragma once

#include "scheduler/state/host.h"

namespace gpupool::scheduler {

struct Demands {
  HostNeed host = {};      // of the machine, for each device
  bool exclusive = false;  // nothing else is on the devices
  friend auto operator<=>(const Demands&, const Demands&) = default;
};

}  // namespace gpupool::scheduler
