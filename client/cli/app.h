// The command line as a function: arguments in, output and exit code out.
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

// The whole command line with all verbs. `options` and `invocation` must
// outlive it.
std::unique_ptr<CLI::App> MakeApp(GlobalOptions& options,
                                  Invocation& invocation);

// Runs one command. `arguments` leave out the program's name. Returns the exit
// code (exit_code.h). `stop` ends a command that waits or follows.
int RunCommandLine(const std::vector<std::string>& arguments,
                   const Console& console, std::stop_token stop);

}  // namespace gpupool::client
