// What clients ask of a device as a whole: to be drained, and to be resumed.
//
// Thread-safety: any thread; see context.h.
#pragma once

#include <optional>
#include <string>

#include "scheduler/state.h"
#include "server/control/context.h"

namespace gpupool::server {

absl::Status NoSuchDevice(const std::string& device);

// Returns InvalidArgument, with the devices there are, when `wanted` names a
// device or a kind that the pool does not have.
absl::Status CheckWantedDevice(const scheduler::State& state,
                               const std::string& wanted);

// Nothing: it is resumed. NotFound for an unknown device. Is durable when it is
// answered, with the device as it then is.
void SetDrain(const ControlContext& context, const std::string& device,
              const std::optional<v1::DeviceDrain>& drain,
              ControlLoop::Callback<v1::Device> callback);

}  // namespace gpupool::server
