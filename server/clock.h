// Where the daemon's own time comes from, so that tests can decide it.
//
// Threads: any.
#pragma once

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace gpupool::server {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;
};

class SystemClock : public Clock {
 public:
  absl::Time Now() const override { return absl::Now(); }
};

}  // namespace gpupool::server
