// Runs a command of gpupool-worker, which knows the engine and the drivers, on
// this machine. No server is asked.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/command/context.h"
#include "client/cli/command/program_output.h"

namespace gpupool::client {

// Adds --worker-binary.
void AddWorkerBinary(CLI::App& verb, std::string& file);

// Returns the path of the program of this name beside the running one.
std::string ProgramBesideThis(const std::string& name);

// Returns `given`, or if that is empty the worker beside this program.
std::string WorkerBinary(const std::string& given);

// Runs `arguments`, of which the first is the binary. Errors as RunProgram; one
// of a binary that cannot be started has a remedy.
absl::StatusOr<ProgramOutput> RunWorkerCommand(
    const Context& context, const std::vector<std::string>& arguments,
    absl::Duration limit);

// Returns "ended with exit code 7" or "was killed by signal 9 (Killed)".
std::string EndText(const ProgramOutput& output);

}  // namespace gpupool::client
