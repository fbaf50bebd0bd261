#include "server/store/check.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <system_error>
#include <utility>

#include "SQLiteCpp/Backup.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "gpupool/v1/auth.pb.h"
#include "gpupool/v1/dataset.pb.h"
#include "gpupool/v1/job.pb.h"
#include "gpupool/v1/model.pb.h"
#include "gpupool/v1/reservation.pb.h"
#include "server/store/database.h"
#include "server/store/events_kept.h"
#include "server/store/migrations.h"
#include "server/store/store_writer.h"

namespace gpupool::server {
namespace {

constexpr size_t kMostProblems = 100;
constexpr int kPagesAtOnce = 1024;
// SQLite counts instructions of its virtual machine.
constexpr int kOperationsBetweenLooks = 10000;

absl::Status CheckThere(const std::string& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) return absl::OkStatus();
  if (error) {
    return absl::ErrnoToStatus(error.value(),
                               absl::StrCat("cannot open ", path));
  }
  return absl::NotFoundError(absl::StrCat("there is no database ", path));
}

class Checker {
 public:
  // A reader of a WAL database needs write access to the shared index.
  Checker(const std::string& path, std::stop_token stop)
      : stop_(std::move(stop)), connection_(path, SQLite::OPEN_READWRITE) {
    connection_.database().exec("PRAGMA query_only = ON");
    sqlite3_progress_handler(
        connection_.database().getHandle(), kOperationsBetweenLooks,
        [](void* asked) -> int {
          return static_cast<std::stop_token*>(asked)->stop_requested() ? 1 : 0;
        },
        &stop_);
  }

  absl::StatusOr<CheckReport> Run() {
    // One snapshot, whatever is committed meanwhile.
    SQLite::Transaction snapshot(connection_.database());
    report_.schema = static_cast<uint32_t>(
        connection_.database().execAndGet("PRAGMA user_version").getInt());
    if (report_.schema != CurrentSchemaVersion()) {
      return absl::FailedPreconditionError(
          absl::StrCat("the database has schema ", report_.schema,
                       ", this gpupoold ", CurrentSchemaVersion(),
                       report_.schema < CurrentSchemaVersion()
                           ? "; a start of this gpupoold brings it up to date"
                           : "; use the newer gpupoold that wrote it"));
    }
    CheckPages();
    CheckJobs();
    CheckArrays();
    CheckEvents();
    CheckRows<v1::Checkpoint>(
        "checkpoints", "SELECT row, checksum, job_id, step FROM checkpoints",
        [](const v1::Checkpoint& row, SQLite::Statement& at) {
          return row.job_id() == Id(at, 2) && row.step() == Id(at, 3);
        });
    CheckRows<v1::Dataset>("datasets",
                           "SELECT row, checksum, id, name FROM datasets",
                           [](const v1::Dataset& row, SQLite::Statement& at) {
                             return row.id() == Id(at, 2) &&
                                    row.name() == at.getColumn(3).getString();
                           });
    CheckRows<v1::ModelVersion>(
        "versions", "SELECT row, checksum, id, model, version FROM versions",
        [](const v1::ModelVersion& row, SQLite::Statement& at) {
          return row.id() == Id(at, 2) &&
                 row.model() == at.getColumn(3).getString() &&
                 row.version() == Id(at, 4);
        });
    CheckReservations();
    CheckDeviceBenches();
    CheckTokens();
    CheckIds();
    return report_;
  }

 private:
  static uint64_t Id(SQLite::Statement& row, int column) {
    return static_cast<uint64_t>(row.getColumn(column).getInt64());
  }

  void Say(std::string problem) {
    // A damaged file may have a problem in every row.
    if (report_.problems.size() < kMostProblems) {
      report_.problems.push_back(std::move(problem));
    }
  }

  void ForEach(const char* sql,
               const std::function<void(SQLite::Statement&)>& take) {
    CachedStatement statement(connection_.Prepare(sql));
    while (statement->executeStep()) take(*statement);
  }

  // Runs SQLite's own checks of pages and foreign keys.
  void CheckPages() {
    ForEach("PRAGMA integrity_check(100)", [&](SQLite::Statement& row) {
      const std::string text = row.getColumn(0).getString();
      if (text != "ok") Say(absl::StrCat("pages: ", text));
    });
    ForEach("PRAGMA foreign_key_check", [&](SQLite::Statement& row) {
      Say(absl::StrCat("a row of ", row.getColumn(0).getString(),
                       " refers to a row of ", row.getColumn(2).getString(),
                       " that is not there"));
    });
  }

  // Columns 0 and 1 must be message and checksum.
  template <typename Message>
  void CheckRows(
      const char* table, const char* sql,
      const std::function<bool(const Message&, SQLite::Statement&)>& agrees) {
    ForEach(sql, [&](SQLite::Statement& at) {
      ++report_.rows[table];
      const auto row = ReadRow<Message>(at, 0, table);
      const std::string where =
          absl::StrCat("row ", report_.rows[table], " of ", table);
      if (!row.ok()) {
        Say(absl::StrCat(where, ": its checksum differs"));
      } else if (!agrees(*row, at)) {
        Say(absl::StrCat(where, ": its columns differ from what it says"));
      }
    });
  }

  // Checks that columns and messages of jobs agree, and that exactly ended jobs
  // have an end.
  void CheckJobs() {
    CheckRows<v1::Job>(
        "jobs",
        "SELECT row, checksum, id, tenant, request_id, state, end_time_ns,"
        " array_id, array_index, has_profiles FROM jobs",
        [&](const v1::Job& row, SQLite::Statement& at) {
          const bool ended = row.state() >= v1::SUCCEEDED;
          if (ended != (at.getColumn(6).getInt64() > 0)) {
            Say(absl::StrCat("job ", row.id(),
                             ": its end's time does not go with its state"));
          }
          return row.id() == Id(at, 2) &&
                 row.spec().tenant() == at.getColumn(3).getString() &&
                 RequestColumn(row) == at.getColumn(4).getString() &&
                 row.state() == at.getColumn(5).getInt() &&
                 row.array_id() == Id(at, 7) &&
                 row.array_index() == Id(at, 8) &&
                 row.recorded_profiles().empty() ==
                     (at.getColumn(9).getInt() == 0);
        });
  }

  // Checks arrays, and that their tasks, kept or forgotten, are complete.
  void CheckArrays() {
    std::map<uint64_t, uint64_t> tasks;
    CheckRows<v1::JobArray>(
        "arrays",
        "SELECT row, checksum, id, tenant, request_id, name FROM arrays",
        [&](const v1::JobArray& row, SQLite::Statement& at) {
          tasks[row.id()] = row.tasks();
          return row.id() == Id(at, 2) &&
                 row.spec().tenant() == at.getColumn(3).getString() &&
                 row.request_id() == at.getColumn(4).getString() &&
                 row.spec().name() == at.getColumn(5).getString();
        });
    ForEach(
        "SELECT id, forgotten_succeeded + forgotten_failed +"
        " forgotten_cancelled + (SELECT COUNT(*) FROM jobs"
        " WHERE array_id > 0 AND array_id = arrays.id) FROM arrays",
        [&](SQLite::Statement& at) {
          const auto array = tasks.find(Id(at, 0));
          if (array == tasks.end() || array->second == Id(at, 1)) return;
          Say(absl::StrCat("array ", array->first, " has ", Id(at, 1), " of ",
                           array->second, " tasks"));
        });
    ForEach(
        "SELECT DISTINCT array_id FROM jobs WHERE array_id > 0"
        " AND array_id NOT IN (SELECT id FROM arrays)",
        [&](SQLite::Statement& at) {
          Say(absl::StrCat("array ", Id(at, 0), " of tasks is not there"));
        });
  }

  // Checks that events have no gap. Only ended jobs lose events, the first ones
  // first.
  void CheckEvents() {
    CheckRows<v1::JobEvent>(
        "job_events", "SELECT row, checksum, job_id, sequence FROM job_events",
        [](const v1::JobEvent& row, SQLite::Statement& at) {
          return row.job_id() == Id(at, 2) && row.sequence() == Id(at, 3);
        });
    // Older events may be thinned.
    const std::string newest = absl::StrCat(
        "SELECT jobs.id, COUNT(sequence), MIN(sequence), MAX(sequence),"
        " jobs.end_time_ns, jobs.has_events FROM jobs"
        " LEFT JOIN (SELECT job_id, MAX(sequence) AS last FROM job_events"
        " GROUP BY job_id) AS ends ON ends.job_id = jobs.id"
        " LEFT JOIN job_events ON job_events.job_id = jobs.id"
        " AND sequence > last - ",
        kEventsKept, " GROUP BY jobs.id");
    ForEach(newest.c_str(), [&](SQLite::Statement& at) {
      const uint64_t count = Id(at, 1);
      const uint64_t first = Id(at, 2);
      const uint64_t last = Id(at, 3);
      const bool ended = Id(at, 4) > 0;
      if (count > 0 && last - first + 1 != count) {
        Say(absl::StrCat("job ", Id(at, 0), ": its events have a gap"));
      } else if (!ended && count > 0 &&
                 first != (last > kEventsKept ? last - kEventsKept + 1 : 1)) {
        Say(absl::StrCat("job ", Id(at, 0), ": its first events are gone"));
      } else if (count > 0 && Id(at, 5) == 0) {
        Say(absl::StrCat("job ", Id(at, 0),
                         " has events though it says that it has none"));
      }
    });
  }

  // Checks that no two reservations have a device at the same time.
  void CheckReservations() {
    struct Window {
      int64_t start = 0;
      int64_t end = 0;
      uint64_t id = 0;
    };
    std::map<std::string, std::vector<Window>> windows;  // by device
    CheckRows<v1::Reservation>(
        "reservations",
        "SELECT row, checksum, id, request_id, start_time_ns, end_time_ns"
        " FROM reservations ORDER BY start_time_ns",
        [&](const v1::Reservation& row, SQLite::Statement& at) {
          const Window window{at.getColumn(4).getInt64(),
                              at.getColumn(5).getInt64(), row.id()};
          // A reservation that was cancelled before its start has no window.
          for (const std::string& device : row.devices()) {
            if (window.end > window.start) windows[device].push_back(window);
          }
          return row.id() == Id(at, 2) &&
                 row.request_id() == at.getColumn(3).getString();
        });
    for (const auto& [device, of_device] : windows) {
      for (size_t i = 1; i < of_device.size(); ++i) {
        // The windows are sorted by start, so it is enough to compare
        // neighbours.
        if (of_device[i].start >= of_device[i - 1].end) continue;
        Say(absl::StrCat("reservations ", of_device[i - 1].id, " and ",
                         of_device[i].id, " have ", device, " at a time"));
      }
    }
  }

  void CheckDeviceBenches() {
    CheckRows<v1::DeviceBench>(
        "device_benches", "SELECT row, checksum, device FROM device_benches",
        [](const v1::DeviceBench& row, SQLite::Statement& at) {
          return row.device() == at.getColumn(2).getString();
        });
  }

  void CheckTokens() {
    CheckRows<v1::StoredToken>(
        "tokens", "SELECT row, checksum, id, secret_sha256 FROM tokens",
        [](const v1::StoredToken& row, SQLite::Statement& at) {
          return row.token().id() == Id(at, 2) &&
                 row.secret_sha256() == at.getColumn(3).getString();
        });
  }

  // Checks that the counters are not behind the ids in use: an id must not be
  // given again.
  void CheckIds() {
    ForEach(
        "SELECT 'job', MAX(id), (SELECT last FROM ids WHERE name = 'job')"
        " FROM (SELECT id FROM jobs UNION ALL SELECT id FROM arrays)"
        " UNION ALL SELECT 'dataset', MAX(id),"
        " (SELECT last FROM ids WHERE name = 'dataset') FROM datasets"
        " UNION ALL SELECT 'version', MAX(id),"
        " (SELECT last FROM ids WHERE name = 'version') FROM versions"
        " UNION ALL SELECT 'reservation', MAX(id),"
        " (SELECT last FROM ids WHERE name = 'reservation') FROM reservations"
        " UNION ALL SELECT 'token', MAX(id),"
        " (SELECT last FROM ids WHERE name = 'token') FROM tokens",
        [&](SQLite::Statement& at) {
          if (Id(at, 1) <= Id(at, 2)) return;
          Say(absl::StrCat("the next ", at.getColumn(0).getString(),
                           " would get the id of one that is there"));
        });
  }

  std::stop_token stop_;
  Connection connection_;
  CheckReport report_;
};

// Copies in parts, so that it can be stopped. The open transaction pins the
// snapshot: without it a commit of the server would restart the copy.
absl::Status CopyPages(const std::string& path, const std::string& to,
                       const std::stop_token& stop) {
  Connection from(path, SQLite::OPEN_READWRITE);
  from.database().exec("PRAGMA query_only = ON");
  SQLite::Transaction snapshot(from.database());
  from.database().execAndGet("SELECT COUNT(*) FROM sqlite_master");
  SQLite::Database copy(to, SQLite::OPEN_READWRITE);
  SQLite::Backup backup(copy, from.database());
  // Each turn copies some pages and then looks whether to stop.
  while (true) {
    const int done = backup.executeStep(kPagesAtOnce);
    if (done == SQLITE_DONE) return absl::OkStatus();
    if (done != SQLITE_OK) {
      return absl::UnavailableError(
          absl::StrCat("copying the database: ", sqlite3_errstr(done)));
    }
    if (stop.stop_requested()) {
      return absl::CancelledError("the copy of the database was stopped");
    }
  }
}

}  // namespace

absl::StatusOr<CheckReport> CheckDatabase(const std::string& path,
                                          std::stop_token stop) {
  RETURN_IF_ERROR(CheckThere(path));
  return Guarded("checking the database", [&]() -> absl::StatusOr<CheckReport> {
    return Checker(path, std::move(stop)).Run();
  });
}

absl::Status BackUpDatabase(const std::string& path, const std::string& to,
                            std::stop_token stop) {
  RETURN_IF_ERROR(CheckThere(path));
  // O_EXCL: never overwrite a file.
  const int fd = open(to.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0 && errno == EEXIST) {
    return absl::AlreadyExistsError(
        absl::StrCat(to, " exists; choose another name"));
  }
  if (fd < 0) {
    return absl::UnavailableError(
        absl::StrCat("creating ", to, ": ", std::strerror(errno)));
  }
  const absl::Status copied = Guarded(
      "copying the database", [&] { return CopyPages(path, to, stop); });
  // SQLite wrote through another descriptor. fsync covers the file, whoever
  // wrote it.
  const bool synced = fsync(fd) == 0;
  close(fd);
  if (copied.ok() && synced) return absl::OkStatus();
  // An incomplete copy must not be taken for a backup.
  unlink(to.c_str());
  if (!copied.ok()) return copied;
  return absl::UnavailableError(absl::StrCat("syncing ", to, " failed"));
}

}  // namespace gpupool::server
