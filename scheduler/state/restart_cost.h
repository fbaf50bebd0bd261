// What stopping a job and resuming it costs, measured: the median of the last
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
  // With fewer measurements nothing is known.
  static constexpr size_t kFew = 3;

  // Saving and restoring took so long together.
  void Add(absl::Duration cost);

  // The median of the last kKept, or `configured` while too few are known.
  absl::Duration OrElse(absl::Duration configured) const;

 private:
  std::array<absl::Duration, kKept> last_;
  size_t added_ = 0;
};

}  // namespace gpupool::scheduler
