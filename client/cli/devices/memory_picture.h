// A picture of a device's memory from its snapshot. Pure.
#pragma once

#include <string>

#include "gpupool/v1/device.pb.h"

namespace gpupool::client {

// Returns an SVG picture. It has a row for each segment, with its blocks
// coloured by their use and named by their owner, and below them the allocated
// and reserved bytes over the history. All rows have the same scale.
//
// The picture is bounded: it has the 200 largest segments, and neighbouring
// blocks that are narrower than a pixel, or one of 20,000 parts of the picture,
// are one bar with the colour of most of their bytes.
std::string SnapshotPicture(const v1::MemorySnapshot& snapshot);

}  // namespace gpupool::client
