// The database's schema, as the list of steps that lead to it.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace SQLite {
class Database;
}  // namespace SQLite

namespace gpupool::server {

// Returns the schema version of this build.
uint32_t CurrentSchemaVersion();

// Brings an empty or older database to CurrentSchemaVersion, each step in one
// transaction. Only forward. Errors:
//   * FailedPrecondition: the schema is newer than this build
//   * DataLoss: SQLite's own check finds damage, or the file belongs to another
//     program
absl::Status Migrate(SQLite::Database& database);

}  // namespace gpupool::server
