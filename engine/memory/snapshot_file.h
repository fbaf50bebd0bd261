// A memory snapshot as the file that PyTorch's memory tools open: the page at
// pytorch.org/memory_viz, and python3 -m torch.cuda._memory_viz. An owner
// stands where PyTorch has a line of code: its holder as the file's name, its
// use as the function's.
#pragma once

#include <string>

#include "engine/memory/statistics.h"

namespace gpupool::engine {

enum class SnapshotForm : uint8_t {
  kFull,      // PyTorch 2 and the page: segments and events
  kSegments,  // PyTorch 1: the list of segments only
};

// `device` is the number of the device, 0 .. 63: the page lists events by it.
std::string SnapshotPickle(const MemorySnapshot& snapshot, int device,
                           SnapshotForm form);

}  // namespace gpupool::engine
