// Handles requests about devices: to list, drain and resume them, and questions
// that a device's worker answers by itself.
//
// Thread-safety: any thread; see context.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/control/calls/callback.h"

namespace gpupool::v1 {
class Device;
class DeviceDrain;
}  // namespace gpupool::v1
namespace gpupool::worker::v1 {
class FromWorker;
class ToWorker;
}  // namespace gpupool::worker::v1
namespace gpupool::scheduler {
class State;
}  // namespace gpupool::scheduler

namespace gpupool::server {

struct ControlContext;

// Returns the devices of the pool as they are now.
std::vector<v1::Device> ListDevices(const ControlContext& context);

// Returns NotFound for a device that the pool does not have.
absl::Status NoSuchDevice(const std::string& device);

// Returns InvalidArgument with the pool's devices when `wanted` names a device
// or a kind that the pool does not have.
absl::Status CheckWantedDevice(const scheduler::State& state,
                               const std::string& wanted);

// Sends a request to the device's worker, which answers also while it trains
// (server/worker/device_verbs.h). Stores nothing. `callback` gets the reply or
// the worker's error; NotFound for an unknown device, Unavailable while its
// worker is away.
void AskDevice(const ControlContext& context, const std::string& device,
               worker::v1::ToWorker request,
               Callback<worker::v1::FromWorker> callback);

// Drains the device, or resumes it when `drain` is absent. Answers with the
// device as it then is, once that is durable. NotFound for an unknown device.
void SetDrain(const ControlContext& context, const std::string& device,
              const std::optional<v1::DeviceDrain>& drain,
              Callback<v1::Device> callback);

}  // namespace gpupool::server
