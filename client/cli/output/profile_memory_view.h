// The memory along a profile's steps for people: text, and a picture. The
// printing function writes only to its stream.
#pragma once

#include <string>
#include <vector>

#include "client/cli/output/console.h"
#include "client/cli/output/profile_memory.h"

namespace gpupool::client {

// Prints the peak of each program and the largest values that live there.
void PrintProfileMemory(const Stream& stream,
                        const std::vector<ProgramMemory>& programs,
                        bool headers);

// Returns an SVG picture with a panel for each program: planned and measured
// bytes over the nodes in their order. The peak is marked, and the largest
// values there are listed below. A picture of more than 1,000 nodes has the
// most bytes of each group of neighbours.
std::string ProfileMemoryPicture(const std::vector<ProgramMemory>& programs);

}  // namespace gpupool::client
