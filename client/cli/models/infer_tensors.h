// `models infer` with whole tensors from files instead of rows of a table.
#pragma once

#include <string>
#include <vector>

#include "client/cli/command/context.h"

namespace gpupool::client {

struct TensorOptions {
  std::string model;                // MODEL or MODEL/VERSION
  std::vector<std::string> inputs;  // "name=file.npy" or "name=file.json"
  std::string save;                 // folder for <output>.npy; empty: print
};

// Sends one request. Prints the outputs as JSON; or writes them as files into
// `save`, which is made where it is missing, and prints the files' names.
// Returns the exit code.
int InferTensors(Context& context, const TensorOptions& options);

}  // namespace gpupool::client
