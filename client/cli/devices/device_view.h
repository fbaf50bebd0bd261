// Devices as a table. GPUs have the columns of nvidia-smi.
#pragma once

#include "client/cli/output/console.h"
#include "gpupool/v1/device.pb.h"

namespace gpupool::client {

struct DeviceViewOptions {
  bool headers = true;
  bool wide = false;  // also clocks, processes and the GPU's name
};

// Prints the table. It has the columns of GPUs if one of the devices is a GPU.
// A cell is empty ("-") if the device does not report the value.
void PrintDevices(const Stream& stream, const v1::ListDevicesResponse& devices,
                  const DeviceViewOptions& options);

}  // namespace gpupool::client
