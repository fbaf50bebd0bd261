// Checks a whole database for `gpupoold --check`, and copies it while it is in
// use. Both open connections of their own, so that a daemon may use it
// meanwhile. Both end early with Cancelled when `stop` is requested.
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
  std::map<std::string, uint64_t> rows;  // number of rows by table
  // Problems in words, at most 100; empty when the database is sound.
  std::vector<std::string> problems;
};

// Runs SQLite's integrity check, then checks every row: its checksum, its
// columns against its message, and that whatever it refers to exists. Errors:
//   * NotFound: no such file
//   * FailedPrecondition: the schema is not the one of this build
//   * DataLoss: not a database, or too damaged to look at
absl::StatusOr<CheckReport> CheckDatabase(const std::string& path,
                                          std::stop_token stop = {});

// Writes a copy of one moment to `to`, which must not exist, and syncs it.
// Errors:
//   * NotFound: no such database
//   * AlreadyExists: `to` exists
//   * ResourceExhausted: its disk is full; nothing is left of the copy
absl::Status BackUpDatabase(const std::string& path, const std::string& to,
                            std::stop_token stop = {});

}  // namespace gpupool::server
