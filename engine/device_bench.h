// Measures a device with single operations: copies by path and size, matrix
// products by type, allocations. Each measurement is short, so that other work
// can take turns with them.
//
// Thread-safety: the compute thread, after SessionDevice::MakeCurrent.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "gpupool/v1/device.pb.h"

namespace gpupool::engine {

class SessionDevice;

// Returns the number of measurements, the same for all devices.
uint32_t BenchCases();

// Makes measurement `index`, below BenchCases(), and adds it to `bench`, which
// has the results of the smaller indices. Measurements that the device does not
// have add nothing: pinned memory and TF32 on the host. If memory or a kernel
// is missing, or if a product would take too long, adds the reason to
// `skipped`. Takes less than a second unless the device is shared. Holds no
// memory when it returns. Returns only faults of the device.
absl::Status MeasureBenchCase(SessionDevice& device, uint32_t index,
                              v1::DeviceBench& bench);

}  // namespace gpupool::engine
