// A memory snapshot in the format of PyTorch 2: the page at
// pytorch.org/memory_viz reads it. The list of its segments alone is what
// python3 -m torch.cuda._memory_viz of PyTorch 1 and 2 reads. An owner takes
// the place of a PyTorch stack frame: its holder is the file name, its use the
// function name.
#pragma once

#include <string>

#include "engine/memory/statistics.h"

namespace gpupool::engine {

// Returns the pickle of a dictionary with "segments" and "device_traces", in
// this order. `device` is the device's number, 0 .. 63, by which the page lists
// events.
std::string SnapshotPickle(const MemorySnapshot& snapshot, int device);

}  // namespace gpupool::engine
