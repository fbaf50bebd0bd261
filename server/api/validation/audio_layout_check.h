// Checks the options of a layout that are for recordings.
//
// Thread-safety: pure functions.
#pragma once

#include "absl/status/status.h"
#include "gpupool/v1/dataset.pb.h"

namespace gpupool::server {

// Returns INVALID_ARGUMENT with the field, its value and the limit. The format
// must be filled in.
absl::Status CheckAudioLayout(const v1::DatasetLayout& layout);

}  // namespace gpupool::server
