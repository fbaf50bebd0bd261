// The server's database as a file on this machine.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/client.h"

namespace gpupool::client {

// Writes the file, which appears whole and on stable storage or not at all;
// returns its bytes. AlreadyExists when something has its name;
// ResourceExhausted when a disk is full; the server's errors.
absl::StatusOr<uint64_t> BackUpDatabase(Client& client,
                                        const std::string& path);

}  // namespace gpupool::client
