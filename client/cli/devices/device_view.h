// Devices as a table: for GPUs with what nvidia-smi shows.
#pragma once

#include "client/cli/output/console.h"
#include "gpupool/v1/device.pb.h"

namespace gpupool::client {

struct DeviceViewOptions {
  bool headers = true;
  bool wide = false;  // also clocks, processes and what the GPU is
};

// Columns of GPUs are there when one of the devices is a GPU; a cell is empty
// ("-") when the device does not tell.
void PrintDevices(const Stream& stream, const v1::ListDevicesResponse& devices,
                  const DeviceViewOptions& options);

}  // namespace gpupool::client
