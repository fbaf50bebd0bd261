// Implements `gpupool-worker check REQUEST`, which checks a model file for
// `gpupool models check`.
#pragma once

namespace gpupool::server {

// Runs the command; argv[0] is "check". REQUEST is a file with a
// v1::PlanModelRequest as JSON, whose onnx.file is a path. Prints a
// v1::ModelCheck as JSON. Returns the exit code: 0, also for a file that is no
// model, or 2 for wrong arguments.
int RunCheckCommand(int argc, char** argv);

}  // namespace gpupool::server
