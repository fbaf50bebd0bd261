// Private to server/store: common parts of reader and writer on top of
// SQLiteCpp. SQLiteCpp throws; Guarded() turns that into a Status at the
// boundary.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "SQLiteCpp/SQLiteCpp.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message_lite.h"

namespace gpupool::server {

// Converts SQLite's result code. `what` names the failed operation.
absl::Status ToStatus(absl::string_view what, const SQLite::Exception& error);

// Runs `function`, which returns Status or StatusOr, and converts exceptions.
template <typename Function>
auto Guarded(absl::string_view what, Function&& function)
    -> decltype(function()) {
  try {
    return function();
  } catch (const SQLite::Exception& error) {
    return ToStatus(what, error);
  }
}

// Returns the checksum that is stored beside a row's bytes.
int64_t RowChecksum(absl::string_view bytes);

// A prepared statement that is reset at the end of the scope, so that it holds
// no snapshot open.
class CachedStatement {
 public:
  explicit CachedStatement(SQLite::Statement& statement)
      : statement_(statement) {}
  ~CachedStatement();
  CachedStatement(const CachedStatement&) = delete;
  CachedStatement& operator=(const CachedStatement&) = delete;
  SQLite::Statement* operator->() { return &statement_; }
  SQLite::Statement& operator*() { return statement_; }

  void BindText(int index, absl::string_view text);
  void BindId(int index, uint64_t id);
  // Binds the message's bytes at `index` and their checksum after it.
  void BindRow(int index, const google::protobuf::MessageLite& message);

 private:
  SQLite::Statement& statement_;
};

// A connection with its prepared statements. For one thread at a time.
class Connection {
 public:
  explicit Connection(const std::string& path, int flags);
  SQLite::Database& database() { return database_; }
  // Prepares a statement, once. `sql` must be a literal, since it must live as
  // long as the connection.
  SQLite::Statement& Prepare(const char* sql);

 private:
  SQLite::Database database_;
  std::map<const char*, std::unique_ptr<SQLite::Statement>> statements_;
};

// Reads the message in columns `column` (bytes) and `column` + 1 (checksum).
// DataLoss, with `table`, when they do not match.
template <typename Message>
absl::StatusOr<Message> ReadRow(SQLite::Statement& statement, int column,
                                absl::string_view table) {
  const SQLite::Column bytes = statement.getColumn(column);
  const absl::string_view view(static_cast<const char*>(bytes.getBlob()),
                               static_cast<size_t>(bytes.getBytes()));
  Message message;
  if (RowChecksum(view) != statement.getColumn(column + 1).getInt64() ||
      !message.ParseFromArray(view.data(), static_cast<int>(view.size()))) {
    return absl::DataLossError(
        absl::StrCat("a row of table ", table,
                     " in the database is damaged: its checksum differs; "
                     "restore the state folder from a backup"));
  }
  return message;
}

}  // namespace gpupool::server
