// The place of a training run among the runs that train one job together, each
// in its own process on its own device (JobSpec.devices).
#pragma once

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "engine/collective/abort_switch.h"

namespace gpupool::engine {

struct RankGroup {
  int rank = 0;  // from 0
  int size = 1;  // the number of the job's devices
  // The group's name, unique for each attempt: at most 64 letters, digits,
  // dots, dashes and underscores.
  std::string name;
  // An existing folder where the ranks meet. Only they can write to it. Its
  // maker removes it.
  std::string folder;
  // The longest wait for another rank, both to arrive and in each exchange. It
  // must be longer than a checkpoint or an evaluation takes.
  absl::Duration timeout = absl::Minutes(10);
  // A switch that ends the group from other threads. May be null.
  std::shared_ptr<AbortSwitch> abort;
};

}  // namespace gpupool::engine
