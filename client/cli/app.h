// The command line as a function from arguments to output and exit code.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "client/cli/output/console.h"

namespace CLI {
class App;
}

namespace gpupool::client {

class Invocation;
struct GlobalOptions;

// Returns the command line with all verbs. `options` and `invocation` must
// outlive it.
std::unique_ptr<CLI::App> MakeApp(GlobalOptions& options,
                                  Invocation& invocation);

// Runs one command and returns its exit code (exit_code.h). `arguments` do not
// contain the program's name. `stop` ends a command that waits or follows.
int RunCommandLine(const std::vector<std::string>& arguments,
                   const Console& console, std::stop_token stop);

}  // namespace gpupool::client
