// The limit of a rehearsal's time.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace gpupool::server {

// Returns the limit of a rehearsal's time for a version or a job of so many
// bytes. GPUPOOL_REHEARSAL_SECONDS, for tests, is the limit in its place.
absl::Duration RehearsalLimit(uint64_t bytes);

// Ends the process by SIGALRM after the limit, unless it is destroyed before.
// At most one may exist.
class Alarm {
 public:
  explicit Alarm(absl::Duration limit) { Set(limit); }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;
  ~Alarm();
  // Begins again with another limit.
  void Set(absl::Duration limit);
};

}  // namespace gpupool::server
