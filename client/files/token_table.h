// Reads the tokens of a text data set from a file, one a line.
//
// Thread-safety: pure but for reading the file.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace gpupool::client {

// Returns the lines of a UTF-8 file without their ends. A token's number is the
// number of its line, from 0. INVALID_ARGUMENT for an empty file, an empty line
// before the last one, a line with blanks or a byte of zero, one that is not
// UTF-8, or more than 4 MiB; names file and line. Else the errors of
// ReadTextFile.
absl::StatusOr<std::vector<std::string>> ReadTokenTable(
    const std::string& path);

}  // namespace gpupool::client
