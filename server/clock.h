// The source of the daemon's time, so that tests can control it.
//
// Thread-safety: any thread.
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
