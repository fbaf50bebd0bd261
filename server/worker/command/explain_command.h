// Implements `gpupool-worker explain MODEL`, which shows what the graph
// compiler makes of a model.
#pragma once

namespace gpupool::server {

// Runs the command; argv[0] is "explain". Prints the explanation, or to
// standard error why there is none. Returns the exit code: 0, 1 when the model
// cannot be compiled, 2 for wrong arguments.
int RunExplainCommand(int argc, char** argv);

}  // namespace gpupool::server
