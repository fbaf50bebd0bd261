// Marks a status as caused by a full disk, which is nobody's fault: what failed
// is tried again once there is space.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace gpupool::engine {

inline constexpr absl::string_view kFullDiskMark = "gpupool/full_disk";

// Returns RESOURCE_EXHAUSTED with the mark. `text` says what found no space.
inline absl::Status FullDiskError(absl::string_view text) {
  absl::Status status = absl::ResourceExhaustedError(text);
  status.SetPayload(kFullDiskMark, absl::Cord());
  return status;
}

inline bool IsFullDisk(const absl::Status& status) {
  return status.GetPayload(kFullDiskMark).has_value();
}

}  // namespace gpupool::engine
