// `gpupool-worker explain MODEL`: what the graph compiler makes of a model.
#pragma once

namespace gpupool::server {

// The arguments of main, "explain" being the first. Prints the explanation or,
// to standard error, why there is none. Returns the exit code: 0, 1 when the
// model cannot be compiled, 2 for wrong arguments.
int RunExplainCommand(int argc, char** argv);

}  // namespace gpupool::server
