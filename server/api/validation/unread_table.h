// Tables in formats that the server does not read, Parquet, Arrow and Feather,
// by a file's name or its first bytes.
//
// Thread-safety: pure functions.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gpupool::server {

// Returns INVALID_ARGUMENT for a name with the ending of such a format. The
// text names the format and says how to convert the file.
absl::Status CheckTableName(absl::string_view file_name);

// The same for a file that begins with the bytes of such a format. Text may
// begin with the same letters.
absl::Status CheckTableBytes(absl::string_view file_name,
                             absl::string_view first_bytes);

}  // namespace gpupool::server
