// Paths of files in the source tree and of this build's binaries, for tests.
//
// The folders are in one generated source file and not in the compiler's flags,
// so that clones in other folders share compiled files.
#pragma once

#include <string>

namespace gpupool {

// Returns the absolute path of a file such as "examples/data/digits.csv.gz".
std::string SourcePath(const std::string& relative);

// Returns the absolute path of a binary such as "gpupoold".
std::string BinaryPath(const std::string& name);

}  // namespace gpupool
