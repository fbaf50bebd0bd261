// Opens the store of a state folder, and refuses to begin with an empty one
// where another was before. Otherwise the server would start without its jobs
// and models, and remove their files.
//
// A database is empty when it is missing, or has no row and has never given an
// id. Two things in the folder tell that there was another:
//   * gpupool.db-used, which the store makes with its first id
//   * files in blobs/ that are older than the database
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/store/store.h"

namespace gpupool::server {

// Counter with the time when the database was begun, in nanoseconds since 1970.
// Databases of earlier versions have none.
inline constexpr char kBeginCounter[] = "database/begin_ns";
// Clocks of file systems may be behind by less than this.
inline constexpr absl::Duration kClockSlack = absl::Minutes(1);

// Returns the names of complete blobs that were written before `begin`, less
// the slack. None when the folder does not exist.
std::vector<std::string> BlobsBefore(const std::string& folder,
                                     absl::Time begin);

// Opens gpupool.db in `state_dir`. A new database notes `now` as its begin.
// FailedPrecondition, with the remedies, when an empty one is in the place of
// another.
absl::StatusOr<std::unique_ptr<Store>> OpenStoreOf(const std::string& state_dir,
                                                   const StoreOptions& options,
                                                   absl::Time now);

}  // namespace gpupool::server
