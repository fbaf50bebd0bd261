// Private to server/control: notices that the machine's clock was set. The
// daemon's own clock does not follow before a restart (server/clock.h).
//
// Thread-safety: none; control thread only.
#pragma once

#include <string>

#include "absl/time/time.h"

namespace gpupool::server {

class ClockWatch {
 public:
  // Takes how far the wall clock is ahead of the daemon's; negative: behind.
  // Returns a line for the log when that changed by a minute or more since the
  // last line, otherwise "".
  std::string Look(absl::Duration ahead);

 private:
  absl::Duration told_;
};

}  // namespace gpupool::server
