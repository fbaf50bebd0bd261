// A memory snapshot in the format of PyTorch's memory tools: the page at
// pytorch.org/memory_viz, and python3 -m torch.cuda._memory_viz. An owner takes
// the place of a PyTorch stack frame: its holder is the file name, its use the
// function name.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/memory/statistics.h"

namespace gpupool::engine {

enum class SnapshotForm : uint8_t {
  kFull,      // PyTorch 2 and the page: segments and events
  kSegments,  // PyTorch 1: the list of segments only
};

// Returns the pickle. `device` is the device's number, 0 .. 63, by which the
// page lists events.
std::string SnapshotPickle(const MemorySnapshot& snapshot, int device,
                           SnapshotForm form);

// Writes a pickle to a temporary file next to `path` and renames it.
//   any code of the file system, with the path
absl::Status WriteSnapshotFile(absl::string_view pickle,
                               const std::string& path);

}  // namespace gpupool::engine
