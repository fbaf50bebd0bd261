// Handles requests for the usable share of a device's memory. Memory requests
// that need no decision go to the device's worker (device_requests.h).
//
// Thread-safety: any thread; see context.h.
#pragma once

#include <string>

#include "server/control/calls/callback.h"

namespace gpupool::v1 {
class MemoryStats;
class SetMemoryFractionRequest;
}  // namespace gpupool::v1
namespace gpupool::scheduler {
struct Device;
}  // namespace gpupool::scheduler

namespace gpupool::server {

struct ControlContext;

// Limits the use of the device's memory to this share. The limit is durable and
// applies to placements whatever becomes of the worker. NotFound for an unknown
// device; FailedPrecondition when more is placed or in use.
void SetMemoryFraction(const ControlContext& context,
                       const v1::SetMemoryFractionRequest& request,
                       Callback<v1::MemoryStats> callback);
// Sends a newly connected worker the share that is set for its device.
void SendMemoryFraction(const ControlContext& context,
                        const scheduler::Device& device);

}  // namespace gpupool::server
