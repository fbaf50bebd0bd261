// The measurements of a device for people: as a table and as an SVG picture.
#pragma once

#include <string>

#include "client/cli/output/console.h"
#include "gpupool/v1/device.pb.h"

namespace gpupool::client {

// Prints one row for each measurement, and then the reasons for those that were
// left out.
void PrintBench(const Stream& stream, const v1::DeviceBench& bench,
                bool headers);

// Returns a picture of the rates over the sizes: copies, products, allocations.
std::string BenchPicture(const v1::DeviceBench& bench);

}  // namespace gpupool::client
