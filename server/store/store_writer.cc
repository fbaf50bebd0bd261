#include "server/store/store_writer.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <filesystem>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/store/blob_files.h"
#include "server/store/migrations.h"

namespace gpupool::server {
namespace {

constexpr char kUpsertJob[] =
    "INSERT INTO jobs(id, tenant, request_id, name, state, create_time_ns,"
    " end_time_ns, row, checksum, array_id, array_index, has_profiles)"
    " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT(id) DO UPDATE SET state = excluded.state,"
    " end_time_ns = excluded.end_time_ns, row = excluded.row,"
    " checksum = excluded.checksum, has_profiles = excluded.has_profiles";
constexpr char kInsertArray[] =
    "INSERT INTO arrays(id, tenant, request_id, name, row, checksum)"
    " VALUES(?, ?, ?, ?, ?, ?)";
// Runs before the task is deleted; its array is deleted with the last task.
constexpr char kForgetTask[] =
    "UPDATE arrays SET"
    " forgotten_succeeded = forgotten_succeeded + (task.state = 6),"
    " forgotten_failed = forgotten_failed + (task.state = 7),"
    " forgotten_cancelled = forgotten_cancelled + (task.state = 8)"
    " FROM (SELECT array_id, state FROM jobs WHERE id = ?) AS task"
    " WHERE arrays.id = task.array_id";
// Deletes the array of task ?1 if that is its last task. The task's own row is
// still there, so the statement leaves it out.
constexpr char kDeleteArrayOf[] =
    "DELETE FROM arrays WHERE id ="
    " (SELECT array_id FROM jobs WHERE id = ?1 AND array_id > 0)"
    " AND NOT EXISTS(SELECT 1 FROM jobs WHERE array_id = arrays.id"
    " AND jobs.array_id > 0 AND jobs.id != ?1)";
constexpr char kDeleteCheckpointsOf[] =
    "DELETE FROM checkpoints WHERE job_id = ?";
// Common end of both statements: adds new sums to existing ones.
#define GPUPOOL_ADD_USAGE                                       \
  " ON CONFLICT DO UPDATE SET"                                  \
  " device_seconds = device_seconds + excluded.device_seconds," \
  " byte_seconds = byte_seconds + excluded.byte_seconds,"       \
  " joules = joules + excluded.joules,"                         \
  " metered_seconds = metered_seconds + excluded.metered_seconds"
constexpr char kAddUsage[] =
    "INSERT INTO usage(hour, tenant, model, device_kind, activity, job_id,"
    " device_seconds, byte_seconds, joules, metered_seconds)"
    " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)" GPUPOOL_ADD_USAGE;
// Adds a job's sums to those of job 0, which stands for all deleted jobs. Thus
// usage outlives its jobs.
constexpr char kKeepUsageOf[] =
    "INSERT INTO usage SELECT hour, tenant, model, device_kind, activity, 0,"
    " device_seconds, byte_seconds, joules, metered_seconds FROM usage"
    " WHERE job_id = ? AND job_id > 0" GPUPOOL_ADD_USAGE;
#undef GPUPOOL_ADD_USAGE
constexpr char kDeleteUsageOf[] =
    "DELETE FROM usage WHERE job_id = ? AND job_id > 0";
constexpr char kDeleteJob[] = "DELETE FROM jobs WHERE id = ?";
// Deletes at most 10,000 events, the oldest first, so that no transaction grows
// with a job's history. kNoteEvents runs next: while events are left, the job
// is found again.
constexpr char kDeleteEvents[] =
    "DELETE FROM job_events WHERE job_id = ?1 AND sequence IN"
    " (SELECT sequence FROM job_events WHERE job_id = ?1"
    " ORDER BY sequence LIMIT 10000)";
constexpr char kDeleteEvent[] =
    "DELETE FROM job_events WHERE job_id = ? AND sequence = ?";
constexpr char kNoteEvents[] =
    "UPDATE jobs SET has_events ="
    " EXISTS(SELECT 1 FROM job_events WHERE job_id = ?1) WHERE id = ?1";
constexpr char kInsertEvent[] =
    "INSERT INTO job_events(job_id, sequence, row, checksum)"
    " VALUES(?, ?, ?, ?)";
constexpr char kUpsertDataset[] =
    "INSERT INTO datasets(id, name, row, checksum) VALUES(?, ?, ?, ?)"
    " ON CONFLICT(id) DO UPDATE SET name = excluded.name, row = excluded.row,"
    " checksum = excluded.checksum";
constexpr char kUpsertVersion[] =
    "INSERT INTO versions(id, model, version, state, row, checksum)"
    " VALUES(?, ?, ?, ?, ?, ?) ON CONFLICT(id) DO UPDATE SET"
    " state = excluded.state, row = excluded.row,"
    " checksum = excluded.checksum";
constexpr char kUpsertCheckpoint[] =
    "INSERT INTO checkpoints(job_id, step, row, checksum) VALUES(?, ?, ?, ?)"
    " ON CONFLICT(job_id, step) DO UPDATE SET row = excluded.row,"
    " checksum = excluded.checksum";
constexpr char kDeleteCheckpoint[] =
    "DELETE FROM checkpoints WHERE job_id = ? AND step = ?";
constexpr char kDeleteDataset[] = "DELETE FROM datasets WHERE id = ?";
constexpr char kDeleteVersion[] = "DELETE FROM versions WHERE id = ?";
constexpr char kUpsertReservation[] =
    "INSERT INTO reservations(id, request_id, start_time_ns, end_time_ns, row,"
    " checksum) VALUES(?, ?, ?, ?, ?, ?) ON CONFLICT(id) DO UPDATE SET"
    " end_time_ns = excluded.end_time_ns, row = excluded.row,"
    " checksum = excluded.checksum";
constexpr char kDeleteReservation[] = "DELETE FROM reservations WHERE id = ?";
constexpr char kUpsertToken[] =
    "INSERT INTO tokens(id, secret_sha256, row, checksum) VALUES(?, ?, ?, ?)"
    " ON CONFLICT(id) DO UPDATE SET row = excluded.row,"
    " checksum = excluded.checksum";
constexpr char kSetTokenUse[] =
    "UPDATE tokens SET last_use_ns = ? WHERE id = ?";
constexpr char kDeleteToken[] = "DELETE FROM tokens WHERE id = ?";
constexpr char kUpsertCounter[] =
    "INSERT INTO counters(name, value) VALUES(?, ?)"
    " ON CONFLICT(name) DO UPDATE SET value = excluded.value";
constexpr char kDeleteCounter[] = "DELETE FROM counters WHERE name = ?";
constexpr char kUpsertMemoryFraction[] =
    "INSERT INTO device_settings(device, memory_fraction) VALUES(?, ?)"
    " ON CONFLICT(device) DO UPDATE SET"
    " memory_fraction = excluded.memory_fraction";
// A device without a row has all of its memory, hence the fraction 1.
constexpr char kUpsertDrain[] =
    "INSERT INTO device_settings(device, memory_fraction, drained,"
    " drain_reason) VALUES(?, 1, ?, ?) ON CONFLICT(device) DO UPDATE SET"
    " drained = excluded.drained, drain_reason = excluded.drain_reason";
constexpr char kUpsertDeviceBench[] =
    "INSERT INTO device_benches(device, row, checksum) VALUES(?, ?, ?)"
    " ON CONFLICT(device) DO UPDATE SET row = excluded.row,"
    " checksum = excluded.checksum";
// MAX: an id is never given again, whatever a caller does wrong.
constexpr char kUpsertId[] =
    "INSERT INTO ids(name, last) VALUES(?, ?)"
    " ON CONFLICT(name) DO UPDATE SET last = MAX(last, excluded.last)";

// Returns nanoseconds since 1970. An int64 holds them until the year 2262.
int64_t Nanoseconds(const google::protobuf::Timestamp& time) {
  return time.seconds() * int64_t{1000000000} + time.nanos();
}

// Size of the write-ahead log that starts a checkpoint; SQLite's own default.
constexpr int kCheckpointPages = 1000;

}  // namespace

std::string RequestColumn(const v1::Job& job) {
  if (job.array_id() == 0) return job.request_id();
  // The column must be unique for each tenant, and tasks have no request id. No
  // request id of a client begins with a line break.
  return absl::StrCat("\n", job.array_id(), "/", job.array_index());
}

std::string UsedMark(const std::string& path) {
  return absl::StrCat(path, "-used");
}

StoreWriter::StoreWriter(const std::string& path, DiskReserve* reserve)
    : connection_(path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE),
      reserve_(reserve),
      path_(path) {}

absl::StatusOr<std::unique_ptr<StoreWriter>> StoreWriter::Open(
    const std::string& path, DiskReserve* reserve) {
  using Result = absl::StatusOr<std::unique_ptr<StoreWriter>>;
  return Guarded("opening the database", [&]() -> Result {
    auto writer = absl::WrapUnique(new StoreWriter(path, reserve));
    SQLite::Database& database = writer->connection_.database();
    const std::string mode =
        database.execAndGet("PRAGMA journal_mode = WAL").getString();
    if (mode != "wal") {
      return absl::UnavailableError(absl::StrCat(
          "the state folder's file system cannot hold a write-ahead log "
          "(journal mode ",
          mode, "); use a local disk"));
    }
    // WAL with less than FULL may lose the last commits in a power cut.
    database.exec("PRAGMA synchronous = FULL");
    database.exec("PRAGMA foreign_keys = ON");
    // A log that has grown is cut to 64 MiB after a checkpoint.
    database.exec("PRAGMA journal_size_limit = 67108864");
    // Replaces SQLite's automatic checkpoints, which hide their errors.
    sqlite3_wal_hook(
        database.getHandle(),
        [](void* pages, sqlite3*, const char*, int count) {
          *static_cast<int*>(pages) = count;
          return SQLITE_OK;
        },
        &writer->log_pages_);
    RETURN_IF_ERROR(Migrate(database));
    SQLite::Statement ids(database, "SELECT name, last FROM ids");
    while (ids.executeStep()) {
      writer->last_ids_[ids.getColumn(0).getString()] =
          static_cast<uint64_t>(ids.getColumn(1).getInt64());
    }
    if (!writer->last_ids_.empty()) writer->MarkUsed();
    return writer;
  });
}

// An error is no failure of the commit: the mark serves a later start only.
void StoreWriter::MarkUsed() {
  if (marked_) return;
  const int fd =
      open(UsedMark(path_).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return;
  close(fd);
  const std::string folder = std::filesystem::path(path_).parent_path();
  marked_ = SyncFolder(folder.empty() ? "." : folder).ok();
}

uint64_t StoreWriter::Allocate(const std::string& name) {
  const uint64_t id = ++last_ids_[name];
  dirty_ids_[name] = id;
  return id;
}

void StoreWriter::Raise(const std::string& name, uint64_t id) {
  uint64_t& last = last_ids_[name];
  if (last >= id) return;
  last = id;
  dirty_ids_[name] = id;
}

absl::Status StoreWriter::Commit(const WriteBatch& batch) {
  // After one failure the state in memory is ahead of the disk, so nothing more
  // may be written.
  if (!failure_.ok()) return failure_;
  if (batch.empty() && dirty_ids_.empty()) return absl::OkStatus();
  failure_ = WriteOrGiveRoom(batch);
  if (failure_.ok() && !dirty_ids_.empty()) {
    dirty_ids_.clear();
    MarkUsed();
  }
  // The batch is durable by now. A failed checkpoint is an error all the same:
  // the disk cannot be trusted with further batches.
  if (failure_.ok()) failure_ = Checkpoint();
  return failure_;
}

// Writes the batch, and once more after giving the disk reserve back. That is
// safe for a write that found no room, since it has written nothing. It would
// not be after a failed fsync.
absl::Status StoreWriter::WriteOrGiveRoom(const WriteBatch& batch) {
  const auto write = [&] {
    return Guarded("writing the database", [&]() -> absl::Status {
      SQLite::Transaction transaction(connection_.database(),
                                      SQLite::TransactionBehavior::IMMEDIATE);
      Write(batch);
      transaction.commit();
      return absl::OkStatus();
    });
  };
  const absl::Status written = write();
  if (!absl::IsResourceExhausted(written) || !reserve_->Release()) {
    return written;
  }
  return write();
}

absl::Status StoreWriter::Checkpoint() {
  if (log_pages_ < kCheckpointPages) return absl::OkStatus();
  const int code =
      sqlite3_wal_checkpoint_v2(connection_.database().getHandle(), nullptr,
                                SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
  switch (code & 0xff) {
    case SQLITE_OK:
    // Another connection is at a checkpoint. A later commit tries again.
    case SQLITE_BUSY:
      return absl::OkStatus();
    case SQLITE_FULL:  // the log still holds everything
      reserve_->Release();
      return absl::OkStatus();
    default:
      return ToStatus(
          "writing the database",
          SQLite::Exception(connection_.database().getHandle(), code));
  }
}

// Writes the batch: jobs before the rows that refer to them.
void StoreWriter::Write(const WriteBatch& batch) {
  for (const auto& [name, last] : dirty_ids_) {
    WriteNumber(kUpsertId, name, last);
  }
  for (const auto& array : batch.insert_arrays) WriteArray(array);
  for (const auto& job : batch.upsert_jobs) WriteJob(job);
  for (const auto& event : batch.append_events) WriteEvent(event);
  DeletePairs(kDeleteEvent, batch.thin_events);
  for (uint64_t id : batch.delete_events) {
    DeleteById(kDeleteEvents, id);
    DeleteById(kNoteEvents, id);
  }
  for (const auto& [key, sums] : batch.add_usage) AddUsage(key, sums);
  for (uint64_t id : batch.delete_jobs) {
    // The order matters: sums and counts are taken over before the job's row is
    // gone.
    DeleteById(kKeepUsageOf, id);
    DeleteById(kDeleteUsageOf, id);
    DeleteById(kDeleteCheckpointsOf, id);
    DeleteById(kForgetTask, id);
    DeleteById(kDeleteArrayOf, id);
    DeleteById(kDeleteJob, id);
  }
  // Deletes datasets before it writes others, so that one batch may free a name
  // and give it away again.
  for (uint64_t id : batch.delete_datasets) DeleteById(kDeleteDataset, id);
  for (const auto& dataset : batch.upsert_datasets) WriteDataset(dataset);
  for (uint64_t id : batch.delete_versions) DeleteById(kDeleteVersion, id);
  for (const auto& version : batch.upsert_versions) WriteVersion(version);
  for (const auto& checkpoint : batch.upsert_checkpoints) {
    WriteCheckpoint(checkpoint);
  }
  DeletePairs(kDeleteCheckpoint, batch.delete_checkpoints);
  for (const auto& [name, value] : batch.set_counters) {
    WriteNumber(kUpsertCounter, name, value);
  }
  for (const std::string& name : batch.delete_counters) {
    CachedStatement statement(connection_.Prepare(kDeleteCounter));
    statement.BindText(1, name);
    statement->exec();
  }
  for (const auto& [device, fraction] : batch.set_memory_fractions) {
    CachedStatement statement(connection_.Prepare(kUpsertMemoryFraction));
    statement.BindText(1, device);
    statement->bind(2, fraction);
    statement->exec();
  }
  for (const auto& [device, drain] : batch.set_drains) {
    CachedStatement statement(connection_.Prepare(kUpsertDrain));
    statement.BindText(1, device);
    // 0: not drained; 1: running jobs leave; 2: running jobs go on to their
    // end.
    statement->bind(2, !drain ? 0 : drain->lets_finish() ? 2 : 1);
    statement.BindText(3, drain ? drain->reason() : "");
    statement->exec();
  }
  for (const auto& [device, bench] : batch.set_device_benches) {
    CachedStatement statement(connection_.Prepare(kUpsertDeviceBench));
    statement.BindText(1, device);
    statement.BindRow(2, bench);
    statement->exec();
  }
  for (uint64_t id : batch.delete_reservations) {
    DeleteById(kDeleteReservation, id);
  }
  for (const auto& reservation : batch.upsert_reservations) {
    WriteReservation(reservation);
  }
  WriteTokens(batch);
}

void StoreWriter::WriteJob(const v1::Job& job) {
  CachedStatement statement(connection_.Prepare(kUpsertJob));
  statement.BindId(1, job.id());
  statement.BindText(2, job.spec().tenant());
  statement.BindText(3, RequestColumn(job));
  statement.BindText(4, job.spec().name());
  statement->bind(5, static_cast<int>(job.state()));
  statement->bind(6, Nanoseconds(job.create_time()));
  statement->bind(7, Nanoseconds(job.end_time()));
  statement.BindRow(8, job);
  statement.BindId(10, job.array_id());
  statement.BindId(11, job.array_index());
  statement->bind(12, job.recorded_profiles().empty() ? 0 : 1);
  statement->exec();
}

void StoreWriter::WriteArray(const v1::JobArray& array) {
  CachedStatement statement(connection_.Prepare(kInsertArray));
  statement.BindId(1, array.id());
  statement.BindText(2, array.spec().tenant());
  statement.BindText(3, array.request_id());
  statement.BindText(4, array.spec().name());
  statement.BindRow(5, array);
  statement->exec();
}

void StoreWriter::WriteEvent(const v1::JobEvent& event) {
  CachedStatement statement(connection_.Prepare(kInsertEvent));
  statement.BindId(1, event.job_id());
  statement.BindId(2, event.sequence());
  statement.BindRow(3, event);
  statement->exec();
}

void StoreWriter::WriteDataset(const v1::Dataset& dataset) {
  CachedStatement statement(connection_.Prepare(kUpsertDataset));
  statement.BindId(1, dataset.id());
  statement.BindText(2, dataset.name());
  statement.BindRow(3, dataset);
  statement->exec();
}

void StoreWriter::WriteVersion(const v1::ModelVersion& version) {
  CachedStatement statement(connection_.Prepare(kUpsertVersion));
  statement.BindId(1, version.id());
  statement.BindText(2, version.model());
  statement.BindId(3, version.version());
  statement->bind(4, static_cast<int>(version.state()));
  statement.BindRow(5, version);
  statement->exec();
}

void StoreWriter::WriteCheckpoint(const v1::Checkpoint& checkpoint) {
  CachedStatement statement(connection_.Prepare(kUpsertCheckpoint));
  statement.BindId(1, checkpoint.job_id());
  statement.BindId(2, checkpoint.step());
  statement.BindRow(3, checkpoint);
  statement->exec();
}

void StoreWriter::WriteReservation(const v1::Reservation& reservation) {
  CachedStatement statement(connection_.Prepare(kUpsertReservation));
  statement.BindId(1, reservation.id());
  statement.BindText(2, reservation.request_id());
  statement->bind(3, Nanoseconds(reservation.start_time()));
  statement->bind(
      4, Nanoseconds(reservation.has_cancel_time() ? reservation.cancel_time()
                                                   : reservation.end_time()));
  statement.BindRow(5, reservation);
  statement->exec();
}

void StoreWriter::WriteTokens(const WriteBatch& batch) {
  for (const v1::StoredToken& stored : batch.upsert_tokens) {
    CachedStatement statement(connection_.Prepare(kUpsertToken));
    statement.BindId(1, stored.token().id());
    statement.BindText(2, stored.secret_sha256());
    statement.BindRow(3, stored);
    statement->exec();
  }
  for (const auto& [id, time] : batch.set_token_uses) {
    CachedStatement statement(connection_.Prepare(kSetTokenUse));
    statement->bind(1, absl::ToUnixNanos(time));
    statement.BindId(2, id);
    statement->exec();
  }
  for (const uint64_t id : batch.delete_tokens) DeleteById(kDeleteToken, id);
}

void StoreWriter::AddUsage(const UsageKey& key, const UsageSums& sums) {
  CachedStatement statement(connection_.Prepare(kAddUsage));
  statement->bind(1, key.hour);
  statement.BindText(2, key.tenant);
  statement.BindText(3, key.model);
  statement.BindText(4, key.device_kind);
  statement->bind(5, static_cast<int>(key.activity));
  statement.BindId(6, key.job);
  statement->bind(7, sums.device_seconds);
  statement->bind(8, sums.byte_seconds);
  statement->bind(9, sums.joules);
  statement->bind(10, sums.metered_seconds);
  statement->exec();
}

void StoreWriter::WriteNumber(const char* sql, const std::string& name,
                              uint64_t value) {
  CachedStatement statement(connection_.Prepare(sql));
  statement.BindText(1, name);
  statement.BindId(2, value);
  statement->exec();
}

void StoreWriter::DeleteById(const char* sql, uint64_t id) {
  CachedStatement statement(connection_.Prepare(sql));
  statement.BindId(1, id);
  statement->exec();
}

void StoreWriter::DeletePairs(
    const char* sql, const std::vector<std::pair<uint64_t, uint64_t>>& pairs) {
  for (const auto& [first, second] : pairs) {
    CachedStatement statement(connection_.Prepare(sql));
    statement.BindId(1, first);
    statement.BindId(2, second);
    statement->exec();
  }
}

}  // namespace gpupool::server
