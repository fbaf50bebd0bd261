// Looks at a whole database, as `gpupoold --check` does, and copies it while it
// is in use. Both open connections of their own, so that a daemon may be at
// work on it meanwhile. Both end early, with Cancelled, when `stop` is asked
// for.
#pragma once

#include <cstdint>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gpupool::server {

struct CheckReport {
  uint32_t schema = 0;
  std::map<std::string, uint64_t> rows;  // by table
  // In words; empty when the database is sound. At most 100.
  std::vector<std::string> problems;
};

// SQLite's integrity check, then every row: its checksum, its columns against
// what it says, and that what rows refer to is there.
//   NotFound            there is no such file
//   FailedPrecondition  the schema is not the one of this build
//   DataLoss            not a database, or too damaged to look at
absl::StatusOr<CheckReport> CheckDatabase(const std::string& path,
                                          std::stop_token stop = {});

// Writes a copy of one moment to `to`, which must not exist, and syncs it.
//   NotFound           there is no such database
//   AlreadyExists      `to` exists
//   ResourceExhausted  its disk is full; then nothing is left of it
absl::Status BackUpDatabase(const std::string& path, const std::string& to,
                            std::stop_token stop = {});

}  // namespace gpupool::server
