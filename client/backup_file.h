// The server's database as a file on this machine.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/client.h"

namespace gpupool::client {

// Writes the database to `path` and returns its bytes. The file appears
// complete and on stable storage, or not at all.
//   ALREADY_EXISTS      something has the name
//   RESOURCE_EXHAUSTED  a disk is full
// Other errors are the server's.
absl::StatusOr<uint64_t> BackUpDatabase(Client& client,
                                        const std::string& path);

}  // namespace gpupool::client
