// Private to server/store: the reading connection behind a mutex. Each call
// sees one snapshot of committed data. Any thread may call it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/status_macros.h"
#include "server/store/database.h"

namespace gpupool::server {

class StoreReader {
 public:
  // Opens the database, which must exist with the current schema.
  static absl::StatusOr<std::unique_ptr<StoreReader>> Open(
      const std::string& path);

  using Bind = std::function<void(CachedStatement&)>;

  // Returns all messages in columns 0 (row) and 1 (checksum) of the result.
  // `sql` must be a literal.
  template <typename Message>
  absl::StatusOr<std::vector<Message>> Select(absl::string_view table,
                                              const char* sql,
                                              const Bind& bind) const {
    using Result = absl::StatusOr<std::vector<Message>>;
    absl::MutexLock lock(&mutex_);
    return Guarded("reading the database", [&]() -> Result {
      CachedStatement statement(connection_.Prepare(sql));
      bind(statement);
      return Fetch<Message>(table, *statement);
    });
  }

  // Does the same for SQL that was composed for this call.
  template <typename Message>
  absl::StatusOr<std::vector<Message>> SelectOnce(absl::string_view table,
                                                  const std::string& sql,
                                                  const Bind& bind) const {
    using Result = absl::StatusOr<std::vector<Message>>;
    absl::MutexLock lock(&mutex_);
    return Guarded("reading the database", [&]() -> Result {
      SQLite::Statement once(connection_.database(), sql);
      CachedStatement statement(once);
      bind(statement);
      return Fetch<Message>(table, *statement);
    });
  }

  struct Query {
    absl::string_view table;
    const char* sql;  // a literal
  };
  // Calls `take` with each message that Select would return, one at a time.
  template <typename Message>
  absl::Status ForEachRow(const Query& query, const Bind& bind,
                          const std::function<void(Message)>& take) const {
    absl::MutexLock lock(&mutex_);
    return Guarded("reading the database", [&]() -> absl::Status {
      CachedStatement statement(connection_.Prepare(query.sql));
      bind(statement);
      return ReadRows<Message>(query.table, *statement, take);
    });
  }

  // Calls `row` for each row of the result.
  absl::Status ForEach(
      const char* sql, const Bind& bind,
      const std::function<void(SQLite::Statement&)>& row) const;

 private:
  explicit StoreReader(const std::string& path);

  template <typename Message, typename Take>
  static absl::Status ReadRows(absl::string_view table,
                               SQLite::Statement& statement, const Take& take) {
    while (statement.executeStep()) {
      auto message = ReadRow<Message>(statement, 0, table);
      if (!message.ok()) return std::move(message).status();
      take(*std::move(message));
    }
    return absl::OkStatus();
  }

  template <typename Message>
  static absl::StatusOr<std::vector<Message>> Fetch(
      absl::string_view table, SQLite::Statement& statement) {
    std::vector<Message> messages;
    RETURN_IF_ERROR(ReadRows<Message>(table, statement, [&](Message message) {
      messages.push_back(std::move(message));
    }));
    return messages;
  }

  mutable absl::Mutex mutex_;
  mutable Connection connection_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gpupool::server
