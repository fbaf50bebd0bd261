// A profile for people: tables by op and by layer, and a flame graph. The
// printing function writes only to its stream.
#pragma once

#include <string>

#include "client/cli/output/console.h"
#include "client/cli/output/profile_trace.h"

namespace gpupool::client {

// Prints a table by op, one by layer, advice, and the memory. Times and calls
// are those of one step or request.
void PrintProfile(const Stream& stream, const ProfileTrace& trace,
                  bool headers);

// Returns an SVG picture: a bar for each part of a layer's name, below it its
// ops, as wide as their share of the time. The pointer shows names and times.
std::string FlamePicture(const ProfileTrace& trace);

}  // namespace gpupool::client
