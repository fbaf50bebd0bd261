#include "server/store/database.h"

#include <sqlite3.h>
#include <zlib.h>

namespace gpupool::server {

absl::Status ToStatus(absl::string_view what, const SQLite::Exception& error) {
  const std::string text = absl::StrCat(what, ": ", error.what());
  switch (error.getErrorCode() & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(absl::StrCat(
          text,
          "; the database is damaged: restore the state folder from a "
          "backup"));
    case SQLITE_FULL:
      return absl::ResourceExhaustedError(
          absl::StrCat(text, "; free space on the state folder's disk"));
    case SQLITE_NOMEM:
      return absl::ResourceExhaustedError(text);
    case SQLITE_INTERRUPT:
      return absl::CancelledError(text);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
      return absl::UnavailableError(text);
    default:
      return absl::InternalError(text);
  }
}

int64_t RowChecksum(absl::string_view bytes) {
  return static_cast<int64_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

CachedStatement::~CachedStatement() {
  // A failing reset repeats the error that the step has reported.
  statement_.tryReset();
  try {
    statement_.clearBindings();
  } catch (const SQLite::Exception&) {
    return;
  }
}

void CachedStatement::BindText(int index, absl::string_view text) {
  statement_.bind(index, std::string(text));
}

void CachedStatement::BindId(int index, uint64_t id) {
  statement_.bind(index, static_cast<int64_t>(id));
}

void CachedStatement::BindRow(int index,
                              const google::protobuf::MessageLite& message) {
  const std::string bytes = message.SerializeAsString();
  // With a null pointer SQLite would store NULL for an empty message.
  statement_.bind(index, bytes.empty() ? "" : bytes.data(),
                  static_cast<int>(bytes.size()));
  statement_.bind(index + 1, RowChecksum(bytes));
}

Connection::Connection(const std::string& path, int flags)
    : database_(path, flags, /*aBusyTimeoutMs=*/5000) {
  sqlite3_extended_result_codes(database_.getHandle(), 1);
}

SQLite::Statement& Connection::Prepare(const char* sql) {
  auto& statement = statements_[sql];
  if (statement == nullptr) {
    statement = std::make_unique<SQLite::Statement>(database_, sql);
  }
  return *statement;
}

}  // namespace gpupool::server
