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

// Sends one request and returns the exit code. Prints the outputs as JSON, or
// writes them as files into the folder `save` and prints the files' names.
// Creates `save` if it is missing.
int InferTensors(Context& context, const TensorOptions& options);

}  // namespace gpupool::client
