// Output of `plan` and `models plan`.
#pragma once

#include <string>

#include "client/cli/command/context.h"
#include "gpupool/v1/device.pb.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::client {

// Prints tables of bytes, tensors, layers and devices, and warnings on `err`.
// The bytes of training are left out of a plan that has only inference.
// `pool` has the present devices. If the device of a fit is missing there, the
// table says less about why nothing fits now.
void PrintPlanParts(
    const Context& context, const v1::Plan& plan,
    const google::protobuf::RepeatedPtrField<v1::DeviceFit>& fits,
    const v1::ListDevicesResponse& pool);

// Prints the table of inputs and outputs.
void PrintTensors(const Context& context, const v1::Plan& plan);

// Returns when the job fits on a device: "now", "never", or the event that must
// happen first. `device` may be null.
std::string FitText(const v1::DeviceFit& fit, const v1::Device* device);

}  // namespace gpupool::client
