// The list of segments in a memory snapshot, in the form that every version of
// PyTorch's command line viewer reads. Pure; from any thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpupool::client {

// Returns the value of "segments" in the pickle of a dictionary, as a pickle of
// its own. The pickle must have the opcodes of engine/memory/pickle_writer.h.
// DATA_LOSS when it is damaged or has no such list.
absl::StatusOr<std::string> SegmentsOf(absl::string_view pickle);

}  // namespace gpupool::client
