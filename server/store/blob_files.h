// Private to server/store: calls on the files of blobs.
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpupool::server {

// Converts errno: ResourceExhausted without disk space or descriptors, else
// Internal. `what` names the failed operation.
absl::Status FileError(absl::string_view what);

// Makes the names in a folder durable.
absl::Status SyncFolder(const std::string& directory);

// Returns the names of all entries of a folder.
absl::StatusOr<std::vector<std::string>> ListFolder(
    const std::string& directory);

// Writes all bytes from `place` on.
absl::Status WriteAt(int fd, absl::string_view bytes, uint64_t place);

}  // namespace gpupool::server
