// The command line of gpupoold.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "server/config.h"

namespace gpupool::server {

struct CommandLine {
  Config config;
  // Set by --help, --version and --list-settings: print it and end with 0.
  std::optional<std::string> answer;
  // Instead of serving: look at the database, or copy it to this file.
  bool check = false;
  std::string backup;
};

// Reads the file of --config first, then the flags. InvalidArgument says what
// is wrong and how to get help.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv,
                                             const std::string& version);

}  // namespace gpupool::server
