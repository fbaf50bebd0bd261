// The command line of gpupoold.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "server/config.h"

namespace gpupool::server {

struct CommandLine {
  Config config;
  // Text to print before ending with 0. Set by --help, --version and
  // --list-settings.
  std::optional<std::string> answer;
  // Work to do instead of serving: check the database, or copy it to this file.
  bool check = false;
  std::string backup;
};

// Reads the environment first, then the file of --config, then the flags: a
// later value wins. InvalidArgument tells what
// is wrong and how to get help.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv,
                                             const std::string& version);

}  // namespace gpupool::server
