// Where tests find files of the source tree and the binaries of this build.
//
// The folders are in one generated source file, not in the compiler's flags, so
// that clones in other folders share what was compiled.
#pragma once

#include <string>

namespace gpupool {

// Returns the absolute path of "examples/data/digits.csv.gz" and the like.
std::string SourcePath(const std::string& relative);

// Returns the absolute path of a binary as in "gpupoold".
std::string BinaryPath(const std::string& name);

}  // namespace gpupool
