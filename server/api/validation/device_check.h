// Checks the devices that an owner wants for a job or a model.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gpupool::server {

// Returns InvalidArgument with the allowed values, unless `device` is empty,
// "any", "cpu", "cuda" or such a kind with a number, as "cuda:1". Whether the
// pool has the device is checked later
// (server/control/devices/device_requests.h).
absl::Status CheckDevice(absl::string_view field, const std::string& device);

// Returns the same for a model version, which is loaded on one device.
absl::Status CheckVersionDevice(const std::string& device);

// Returns InvalidArgument when a job on several devices names one of them.
absl::Status CheckDeviceCount(const std::string& device, uint32_t most_devices);

}  // namespace gpupool::server
