// Output of `models check`.
#pragma once

#include "client/cli/command/context.h"
#include "gpupool/v1/model_check.pb.h"

namespace gpupool::client {

// Prints what the file is, its inputs and outputs, and whether it can be served
// and trained, with the bytes of each; warnings on `err`. `check` is not
// refused.
void PrintCheck(const Context& context, const v1::ModelCheck& check);

}  // namespace gpupool::client
