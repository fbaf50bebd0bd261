// Shows the trace file of a profile: tables, advice, and a flame graph.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/cli/command/context.h"

namespace gpupool::client {

struct ProfileFiles {
  std::string trace;
  std::string flame;   // to write; empty: none
  std::string memory;  // likewise
};

// Adds the options for the pictures.
void AddPictureOptions(CLI::App& verb, ProfileFiles& files);

// INVALID_ARGUMENT if two of the names lead to the same file, of which only the
// last content would stay. To be called before the server is asked.
absl::Status CheckProfileFiles(const ProfileFiles& files);

// Prints the tables of the trace, unless the output is JSON or YAML, and writes
// the flame graph and the picture of the memory. INVALID_ARGUMENT for a file
// that is no such trace, else errors of the files.
absl::Status ShowProfile(Context& context, const ProfileFiles& files);

}  // namespace gpupool::client
