// What `plan` and `models plan` print of a plan.
#pragma once

#include "client/cli/context.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::client {

// Tables of bytes, tensors, layers and devices; warnings on `err`.
void PrintPlanParts(
    const Context& context, const v1::Plan& plan,
    const google::protobuf::RepeatedPtrField<v1::DeviceFit>& fits);

}  // namespace gpupool::client
