#include "server/store/store_reader.h"

#include "absl/memory/memory.h"

namespace gpupool::server {

// A reader of a WAL database needs write access to the shared index; query_only
// keeps it from writing anything else.
StoreReader::StoreReader(const std::string& path)
    : connection_(path, SQLite::OPEN_READWRITE) {
  connection_.database().exec("PRAGMA query_only = ON");
}

absl::StatusOr<std::unique_ptr<StoreReader>> StoreReader::Open(
    const std::string& path) {
  using Result = absl::StatusOr<std::unique_ptr<StoreReader>>;
  return Guarded("opening the database", [&]() -> Result {
    return absl::WrapUnique(new StoreReader(path));
  });
}

absl::Status StoreReader::ForEach(
    const char* sql, const Bind& bind,
    const std::function<void(SQLite::Statement&)>& row) const {
  absl::MutexLock lock(&mutex_);
  return Guarded("reading the database", [&]() -> absl::Status {
    CachedStatement statement(connection_.Prepare(sql));
    bind(statement);
    while (statement->executeStep()) row(*statement);
    return absl::OkStatus();
  });
}

}  // namespace gpupool::server
