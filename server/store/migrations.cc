#include "server/store/migrations.h"

#include <sqlite3.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/store/database.h"

namespace gpupool::server {
namespace {

// Application id "gpup" (PRAGMA application_id) that marks the file as ours.
constexpr int kApplicationId = 0x67707570;

// Step i leads from schema i to i + 1. Published steps must never change.
constexpr const char* kSteps[] = {
    R"sql(
CREATE TABLE ids(
  name TEXT PRIMARY KEY,
  last INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE counters(
  name TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE jobs(
  id INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  request_id TEXT NOT NULL,
  name TEXT NOT NULL,
  state INTEGER NOT NULL,
  create_time_ns INTEGER NOT NULL,
  row BLOB NOT NULL,
  checksum INTEGER NOT NULL,
  UNIQUE(tenant, request_id)
);
CREATE INDEX jobs_by_state ON jobs(state, id);
CREATE INDEX jobs_by_name ON jobs(name, id);
CREATE INDEX jobs_by_create_time ON jobs(create_time_ns);

CREATE TABLE job_events(
  job_id INTEGER NOT NULL REFERENCES jobs(id),
  sequence INTEGER NOT NULL,
  row BLOB NOT NULL,
  checksum INTEGER NOT NULL,
  PRIMARY KEY(job_id, sequence)
) WITHOUT ROWID;

CREATE TABLE checkpoints(
  job_id INTEGER NOT NULL REFERENCES jobs(id),
  step INTEGER NOT NULL,
  row BLOB NOT NULL,
  checksum INTEGER NOT NULL,
  PRIMARY KEY(job_id, step)
) WITHOUT ROWID;

CREATE TABLE datasets(
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  row BLOB NOT NULL,
  checksum INTEGER NOT NULL
);

CREATE TABLE versions(
  id INTEGER PRIMARY KEY,
  model TEXT NOT NULL,
  version INTEGER NOT NULL,
  state INTEGER NOT NULL,
  row BLOB NOT NULL,
  checksum INTEGER NOT NULL,
  UNIQUE(model, version)
);
)sql",
    R"sql(
CREATE TABLE device_settings(
  device TEXT PRIMARY KEY,
  memory_fraction REAL NOT NULL
) WITHOUT ROWID;
)sql",
    // Jobs that ended earlier count as ended now.
    R"sql(
ALTER TABLE jobs ADD COLUMN end_time_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN has_events INTEGER NOT NULL DEFAULT 1;
UPDATE jobs SET end_time_ns =
  CAST(strftime('%s', 'now') AS INTEGER) * 1000000000 WHERE state >= 6;
CREATE INDEX jobs_by_end ON jobs(has_events, end_time_ns)
  WHERE end_time_ns > 0;
)sql",
    R"sql(
CREATE TABLE usage(
  hour INTEGER NOT NULL,
  tenant TEXT NOT NULL,
  model TEXT NOT NULL,
  device_kind TEXT NOT NULL,
  activity INTEGER NOT NULL,
  job_id INTEGER NOT NULL,
  device_seconds REAL NOT NULL,
  byte_seconds REAL NOT NULL,
  joules REAL NOT NULL,
  metered_seconds REAL NOT NULL,
  PRIMARY KEY(hour, tenant, model, device_kind, activity, job_id)
) WITHOUT ROWID;
CREATE INDEX usage_by_job ON usage(job_id) WHERE job_id > 0;
)sql",
    R"sql(
CREATE TABLE arrays(
  id INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  request_id TEXT NOT NULL,
  name TEXT NOT NULL,
  forgotten_succeeded INTEGER NOT NULL DEFAULT 0,
  forgotten_failed INTEGER NOT NULL DEFAULT 0,
  forgotten_cancelled INTEGER NOT NULL DEFAULT 0,
  row BLOB NOT NULL,
  checksum INTEGER NOT NULL,
  UNIQUE(tenant, request_id)
);
CREATE INDEX arrays_by_name ON arrays(name, id);
ALTER TABLE jobs ADD COLUMN array_id INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN array_index INTEGER NOT NULL DEFAULT 0;
CREATE INDEX jobs_by_array ON jobs(array_id, state) WHERE array_id > 0;
)sql",
    // `drained`: 0 no, 1 jobs leave, 2 jobs finish.
    R"sql(
ALTER TABLE device_settings ADD COLUMN drained INTEGER NOT NULL DEFAULT 0;
ALTER TABLE device_settings ADD COLUMN drain_reason TEXT NOT NULL DEFAULT '';
)sql",
    // The end of a cancelled reservation is the time of its cancellation.
    R"sql(
CREATE TABLE reservations(
  id INTEGER PRIMARY KEY,
  request_id TEXT NOT NULL UNIQUE,
  start_time_ns INTEGER NOT NULL,
  end_time_ns INTEGER NOT NULL,
  row BLOB NOT NULL,
  checksum INTEGER NOT NULL
);
)sql",
    R"sql(
CREATE TABLE device_benches(
  device TEXT PRIMARY KEY,
  row BLOB NOT NULL,
  checksum INTEGER NOT NULL
) WITHOUT ROWID;
)sql",
    R"sql(
ALTER TABLE jobs ADD COLUMN has_profiles INTEGER NOT NULL DEFAULT 0;
CREATE INDEX jobs_by_profiles ON jobs(id) WHERE has_profiles = 1;
)sql",
    // The last use has a column of its own, so that noting it never undoes a
    // change of the row. 0: never used.
    R"sql(
CREATE TABLE tokens(
  id INTEGER PRIMARY KEY,
  secret_sha256 TEXT NOT NULL UNIQUE,
  last_use_ns INTEGER NOT NULL DEFAULT 0,
  row BLOB NOT NULL,
  checksum INTEGER NOT NULL
);
)sql",
};

int Pragma(SQLite::Database& database, const char* name) {
  return database.execAndGet(absl::StrCat("PRAGMA ", name)).getInt();
}

absl::Status CheckFile(SQLite::Database& database) {
  std::string found;
  // A failed allocation may look like damage: SQLite 3.46 then counts entries
  // wrongly. A second check fails if there is still no memory.
  for (int check = 0; check < 2; ++check) {
    found = database.execAndGet("PRAGMA quick_check(1)").getString();
    if (found == "ok") return absl::OkStatus();
  }
  // Failed allocations say nothing about the file's pages.
  for (int code : {SQLITE_NOMEM, SQLITE_IOERR_NOMEM}) {
    if (!absl::EndsWith(found, absl::StrCat("error code=", code))) continue;
    return absl::ResourceExhaustedError(
        "there is no memory left to check the database");
  }
  return absl::DataLossError(
      absl::StrCat("the database is damaged (", found,
                   "); restore the state folder from a backup"));
}

}  // namespace

uint32_t CurrentSchemaVersion() { return std::size(kSteps); }

absl::Status Migrate(SQLite::Database& database) {
  return Guarded("checking the database", [&]() -> absl::Status {
    RETURN_IF_ERROR(CheckFile(database));
    const int current = static_cast<int>(CurrentSchemaVersion());
    const int found = Pragma(database, "user_version");
    const int application = Pragma(database, "application_id");
    // A new file has 0 in both.
    if (application != kApplicationId && (application != 0 || found != 0)) {
      return absl::DataLossError(
          "the file is an SQLite database of another program");
    }
    if (found > current) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the database has schema ", found, ", this gpupoold knows up to ",
          current, "; start the newer gpupoold that wrote it"));
    }
    // The version number commits with its step, so that a crash never leaves a
    // half step.
    for (int step = found; step < current; ++step) {
      SQLite::Transaction transaction(database,
                                      SQLite::TransactionBehavior::IMMEDIATE);
      database.exec(kSteps[step]);
      database.exec(absl::StrCat("PRAGMA application_id = ", kApplicationId));
      database.exec(absl::StrCat("PRAGMA user_version = ", step + 1));
      transaction.commit();
    }
    return absl::OkStatus();
  });
}

}  // namespace gpupool::server
