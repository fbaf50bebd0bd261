// The place of a training run among those that train one job together, each
// in a process and on a device of its own (JobSpec.devices).
#pragma once

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "engine/collective/abort_switch.h"

namespace gpupool::engine {

struct RankGroup {
  int rank = 0;  // from 0
  int size = 1;  // as many as the job has devices
  // Another one for each attempt: letters, digits, dots, dashes and
  // underscores, at most 64.
  std::string name;
  // Existing folder, where the ranks meet. Only they can write to it; who made
  // it removes it.
  std::string folder;
  // How long a rank waits for another, to arrive as well as in each exchange:
  // longer than a checkpoint or an evaluation takes.
  absl::Duration timeout = absl::Minutes(10);
  // Ends the group from other threads; null: nobody does.
  std::shared_ptr<AbortSwitch> abort;
};

}  // namespace gpupool::engine
