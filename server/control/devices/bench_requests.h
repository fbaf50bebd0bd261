// Handles requests for measurements of a device. The last result of each device
// is kept in the store; the board has its rates.
//
// Thread-safety: any thread; see context.h.
#pragma once

#include "server/control/calls/callback.h"

namespace gpupool::v1 {
class BenchDeviceRequest;
class DeviceBench;
class GetDeviceBenchRequest;
}  // namespace gpupool::v1

namespace gpupool::server {

struct ControlContext;

// Lets the device's worker measure it, and answers once the result is on disk.
// NotFound for an unknown device, Unavailable while its worker is away, else
// the worker's error (server/worker/bench_run.h).
void BenchDevice(const ControlContext& context,
                 const v1::BenchDeviceRequest& request,
                 Callback<v1::DeviceBench> callback);

// Answers with the result that is kept. NotFound for an unknown device and for
// one that was never measured.
void GetDeviceBench(const ControlContext& context,
                    const v1::GetDeviceBenchRequest& request,
                    const Callback<v1::DeviceBench>& callback);

}  // namespace gpupool::server
