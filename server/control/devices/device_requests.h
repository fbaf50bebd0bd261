// What clients ask of devices: to be listed, drained and resumed, and whatever
// a device's worker can answer by itself.
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

// Returns the NotFound of a device that the pool does not have.
absl::Status NoSuchDevice(const std::string& device);

// Returns InvalidArgument, with the devices there are, when `wanted` names a
// device or a kind that the pool does not have.
absl::Status CheckWantedDevice(const scheduler::State& state,
                               const std::string& wanted);

// Sends a request to the device's worker, which answers while it trains, too
// (server/worker/device_verbs.h). Nothing is stored. `callback` gets the reply,
// or the worker's error; NotFound for an unknown device, Unavailable while its
// worker is away.
void AskDevice(const ControlContext& context, const std::string& device,
               worker::v1::ToWorker request,
               Callback<worker::v1::FromWorker> callback);

// Drains the device, or resumes it when `drain` is absent. NotFound for an
// unknown device. Is durable when it is answered, with the device as it then
// is.
void SetDrain(const ControlContext& context, const std::string& device,
              const std::optional<v1::DeviceDrain>& drain,
              Callback<v1::Device> callback);

}  // namespace gpupool::server
