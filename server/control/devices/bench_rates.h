// Sums up the measurements of a device as the rates that plans use. Pure.
#pragma once

#include "gpupool/v1/device.pb.h"

namespace gpupool::server {

// Returns the fastest product of each type, and the bytes that copies within
// the device read and write in a second, from the largest copy. 0 where nothing
// was measured.
v1::PeakRates RatesOf(const v1::DeviceBench& bench);

}  // namespace gpupool::server
