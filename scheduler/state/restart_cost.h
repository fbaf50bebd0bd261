// The measured cost of stopping a job and resuming it: the median of the last
// restarts, so that one slow disk access does not count.
//
// Thread-safety: a value; as any.
#pragma once

#include <array>
#include <cstddef>

#include "absl/time/time.h"

namespace gpupool::scheduler {

class RestartCost {
 public:
  static constexpr size_t kKept = 32;
  // Minimum number of measurements before the median is used.
  static constexpr size_t kFew = 3;

  // Adds a measurement: the time that saving and restoring took together.
  void Add(absl::Duration cost);

  // Returns the median of the last kKept costs, or `configured` while there are
  // fewer than kFew.
  absl::Duration OrElse(absl::Duration configured) const;

 private:
  std::array<absl::Duration, kKept> last_;
  size_t added_ = 0;
};

}  // namespace gpupool::scheduler
