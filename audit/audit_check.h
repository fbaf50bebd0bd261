// The check of an audit log: whether its chain of digests is whole, over all
// files that are kept.
//
// The check finds a record that was changed, removed, added or moved. It cannot
// find that the newest records were removed, nor that somebody has written all
// records anew from some place on: compare the last digest with one that was
// noted elsewhere.
//
// Thread-safety: any thread; functions keep nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpupool::audit {

struct CheckReport {
  uint64_t files = 0;
  uint64_t records = 0;
  uint64_t first_sequence = 0;  // above 1 if old files are gone
  uint64_t last_sequence = 0;
  std::string last_digest;  // of the last record
  // Bytes behind the last record that are no whole line: a server was killed
  // while it wrote them, or writes them now.
  uint64_t torn_bytes = 0;
  std::string torn_file;
};

// Checks the files in `folder`. Errors:
//   * DataLoss: the first bad record, with its file and line
//   * NotFound: no folder, or no file in it
//   * Unavailable: a file that cannot be read, or that is no regular file
// If `wanted` is not empty, a record must have this digest, else NotFound.
absl::StatusOr<CheckReport> CheckLog(const std::string& folder,
                                     absl::string_view wanted);

// Returns the last `count` lines, oldest first, without a look at the chain. A
// torn line is left out.
absl::StatusOr<std::vector<std::string>> LastLines(const std::string& folder,
                                                   uint64_t count);

}  // namespace gpupool::audit
