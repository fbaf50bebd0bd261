#include "server/store/store.h"

#include <algorithm>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "server/store/disk_reserve.h"
#include "server/store/migrations.h"
#include "server/store/page.h"
#include "server/store/store_reader.h"
#include "server/store/store_writer.h"
#include "server/store/usage_report.h"

namespace gpupool::server {
namespace {

constexpr char kJobById[] = "SELECT row, checksum FROM jobs WHERE id = ?";
constexpr char kJobByRequest[] =
    "SELECT row, checksum FROM jobs WHERE tenant = ? AND request_id = ?";
// The numbers of states are written out in SQL, here and in store_writer.cc.
static_assert(v1::SUCCEEDED == 6 && v1::FAILED == 7 && v1::CANCELLED == 8 &&
              v1::JobState_MAX == 8);
constexpr char kActiveJobs[] =
    "SELECT row, checksum FROM jobs WHERE state < 6 ORDER BY id";
constexpr char kProfiledJobs[] =
    "SELECT id, row, checksum FROM jobs WHERE has_profiles = 1 ORDER BY id";
constexpr char kJobCounts[] = "SELECT state, COUNT(*) FROM jobs GROUP BY state";
// ?1: whether they have events. ?2: latest end.
constexpr char kEndedCount[] =
    "SELECT COUNT(*) FROM jobs WHERE end_time_ns > 0 AND has_events = ?1";
constexpr char kLongEnded[] =
    "SELECT id, state FROM jobs WHERE end_time_ns > 0 AND has_events = ?1"
    " AND end_time_ns <= ?2 ORDER BY end_time_ns LIMIT ?3";
constexpr char kEvents[] =
    "SELECT row, checksum FROM job_events WHERE job_id = ? AND sequence > ?"
    " ORDER BY sequence LIMIT ?";
constexpr char kLastSequence[] =
    "SELECT MAX(sequence) FROM job_events WHERE job_id = ?";
constexpr char kDatasetByName[] =
    "SELECT row, checksum FROM datasets WHERE name = ?";
constexpr char kDatasetPage[] =
    "SELECT row, checksum FROM datasets WHERE id < ? ORDER BY id DESC LIMIT ?";
constexpr char kDatasets[] = "SELECT row, checksum FROM datasets ORDER BY id";
// ?2 = 0: the newest.
constexpr char kVersion[] =
    "SELECT row, checksum FROM versions WHERE model = ?1"
    " AND (version = ?2 OR ?2 = 0) ORDER BY version DESC LIMIT 1";
constexpr char kVersionsOfModel[] =
    "SELECT row, checksum FROM versions WHERE model = ?"
    " ORDER BY version DESC";
constexpr char kModelPage[] =
    "SELECT DISTINCT model FROM versions WHERE model > ?"
    " ORDER BY model LIMIT ?";
constexpr char kVersions[] = "SELECT row, checksum FROM versions ORDER BY id";
constexpr char kCheckpoint[] =
    "SELECT row, checksum FROM checkpoints WHERE job_id = ? AND step = ?";
constexpr char kLastCheckpoint[] =
    "SELECT row, checksum FROM checkpoints WHERE job_id = ?"
    " ORDER BY step DESC LIMIT 1";
// ?1 = 0: of all jobs.
constexpr char kCheckpoints[] =
    "SELECT row, checksum FROM checkpoints WHERE job_id = ?1 OR ?1 = 0"
    " ORDER BY job_id, step";
constexpr char kCounter[] = "SELECT value FROM counters WHERE name = ?";
// Compares with substr, because LIKE would take % and _ in the prefix as
// wildcards.
constexpr char kCounters[] =
    "SELECT name, value FROM counters WHERE substr(name, 1, length(?1)) = ?1";
constexpr char kMemoryFractions[] =
    "SELECT device, memory_fraction FROM device_settings";
constexpr char kDrains[] =
    "SELECT device, drained, drain_reason FROM device_settings"
    " WHERE drained > 0";
constexpr char kDeviceBenches[] =
    "SELECT row, checksum FROM device_benches ORDER BY device";

constexpr char kReservations[] =
    "SELECT row, checksum FROM reservations ORDER BY id";

void BindNothing(CachedStatement&) {}

StoreReader::Bind BindOneId(uint64_t id) {
  return [id](CachedStatement& statement) { statement.BindId(1, id); };
}

StoreReader::Bind BindOneText(absl::string_view text) {
  return [text](CachedStatement& statement) { statement.BindText(1, text); };
}

// Returns the only message of `rows`, or NotFound with `missing`.
template <typename Message>
absl::StatusOr<Message> One(absl::StatusOr<std::vector<Message>> rows,
                            absl::string_view missing) {
  if (!rows.ok()) return std::move(rows).status();
  if (rows->empty()) return absl::NotFoundError(missing);
  return std::move(rows->front());
}

// Returns the dataset without the parts that may have megabytes.
v1::Dataset WithoutDescription(v1::Dataset dataset) {
  dataset.clear_description();
  if (dataset.has_layout()) dataset.mutable_layout()->clear_categories();
  return dataset;
}

const char* IdName(IdKind kind) {
  switch (kind) {
    case IdKind::kJob:
      return "job";
    case IdKind::kDataset:
      return "dataset";
    case IdKind::kVersion:
      return "version";
    case IdKind::kReservation:
      return "reservation";
    case IdKind::kToken:
      return "token";
  }
  return "";
}

// Returns the query with the conditions that the request has. Texts are bound;
// states are numbers.
std::string ListJobsSql(const v1::ListJobsRequest& request) {
  // Pages go from the newest job to older ones. A job that is added meanwhile
  // shifts nothing.
  std::string sql = "SELECT row, checksum FROM jobs WHERE id < ?1";
  if (!request.tenant().empty()) absl::StrAppend(&sql, " AND tenant = ?2");
  if (!request.name().empty()) absl::StrAppend(&sql, " AND name = ?3");
  if (request.states_size() > 0) {
    absl::StrAppend(&sql, " AND state IN (",
                    absl::StrJoin(request.states(), ","), ")");
  }
  if (request.array_id() > 0) absl::StrAppend(&sql, " AND array_id = ?5");
  if (request.has_array_index()) absl::StrAppend(&sql, " AND array_index = ?6");
  if (request.without_tasks()) absl::StrAppend(&sql, " AND array_id = 0");
  absl::StrAppend(&sql, " ORDER BY id DESC LIMIT ?4");
  return sql;
}

}  // namespace

bool WriteBatch::empty() const {
  return insert_arrays.empty() && upsert_jobs.empty() &&
         append_events.empty() && delete_jobs.empty() &&
         delete_events.empty() && thin_events.empty() &&
         upsert_datasets.empty() && delete_datasets.empty() &&
         upsert_versions.empty() && delete_versions.empty() &&
         upsert_checkpoints.empty() && delete_checkpoints.empty() &&
         set_counters.empty() && delete_counters.empty() && add_usage.empty() &&
         set_memory_fractions.empty() && set_drains.empty() &&
         set_device_benches.empty() && upsert_reservations.empty() &&
         delete_reservations.empty() && upsert_tokens.empty() &&
         set_token_uses.empty() && delete_tokens.empty();
}

Store::Store(StoreOptions options, std::unique_ptr<DiskReserve> reserve,
             std::unique_ptr<StoreWriter> writer,
             std::unique_ptr<StoreReader> reader)
    : options_(options),
      reserve_(std::move(reserve)),
      writer_(std::move(writer)),
      reader_(std::move(reader)) {}

Store::~Store() = default;

absl::StatusOr<std::unique_ptr<Store>> Store::Open(
    const std::string& path, const StoreOptions& options) {
  ASSIGN_OR_RETURN(
      auto reserve,
      DiskReserve::Open(absl::StrCat(path, "-reserve"), options.reserve_bytes));
  // Opening writes, too: it may migrate the schema. On a full disk the reserve
  // makes room for that.
  auto writer = StoreWriter::Open(path, reserve.get());
  if (absl::IsResourceExhausted(writer.status()) && reserve->Release()) {
    writer = StoreWriter::Open(path, reserve.get());
  }
  if (!writer.ok()) return writer.status();
  ASSIGN_OR_RETURN(auto reader, StoreReader::Open(path));
  return absl::WrapUnique(new Store(options, std::move(reserve),
                                    *std::move(writer), std::move(reader)));
}

uint64_t Store::AllocateId(IdKind kind) {
  return writer_->Allocate(IdName(kind));
}

uint64_t Store::AllocateVersion(const std::string& model) {
  return writer_->Allocate(absl::StrCat("version of ", model));
}

void Store::RaiseVersion(const std::string& model, uint64_t number) {
  writer_->Raise(absl::StrCat("version of ", model), number);
}

absl::Status Store::Commit(const WriteBatch& batch) {
  return writer_->Commit(batch);
}

void Store::LookAtDisk(absl::Time now) { reserve_->Look(now); }

absl::Status Store::CheckRoom() const { return reserve_->CheckRoom(); }

// -------------------------------------------------------------------- jobs

absl::StatusOr<v1::Job> Store::GetJob(uint64_t id) const {
  return One(reader_->Select<v1::Job>("jobs", kJobById, BindOneId(id)),
             absl::StrCat("there is no job ", id));
}

absl::StatusOr<std::optional<v1::Job>> Store::FindByRequestId(
    absl::string_view tenant, absl::string_view request_id) const {
  ASSIGN_OR_RETURN(auto jobs,
                   reader_->Select<v1::Job>("jobs", kJobByRequest,
                                            [&](CachedStatement& statement) {
                                              statement.BindText(1, tenant);
                                              statement.BindText(2, request_id);
                                            }));
  if (jobs.empty()) return std::nullopt;
  return std::move(jobs.front());
}

absl::StatusOr<v1::ListJobsResponse> Store::ListJobs(
    const v1::ListJobsRequest& request) const {
  ASSIGN_OR_RETURN(const int size, PageSize(request.page_size()));
  ASSIGN_OR_RETURN(const int64_t before,
                   ParseIdToken('j', request.page_token()));
  ASSIGN_OR_RETURN(
      auto jobs,
      reader_->SelectOnce<v1::Job>(
          "jobs", ListJobsSql(request), [&](CachedStatement& statement) {
            statement->bind(1, before);
            if (!request.tenant().empty()) {
              statement.BindText(2, request.tenant());
            }
            if (!request.name().empty()) {
              statement.BindText(3, request.name());
            }
            statement->bind(4, size + 1);
            if (request.array_id() > 0) {
              statement.BindId(5, request.array_id());
            }
            if (request.has_array_index()) {
              statement.BindId(6, request.array_index());
            }
          }));
  v1::ListJobsResponse response;
  // The query asks for one row more than the page has. It tells whether another
  // page follows.
  const bool more = jobs.size() > static_cast<size_t>(size);
  if (more) jobs.pop_back();
  if (more) {
    response.set_next_page_token(
        MakePageToken('j', absl::StrCat(jobs.back().id())));
  }
  for (auto& job : jobs) *response.add_jobs() = std::move(job);
  return response;
}

absl::StatusOr<std::vector<v1::Job>> Store::LoadAllActiveJobs() const {
  return reader_->Select<v1::Job>("jobs", kActiveJobs, BindNothing);
}

absl::StatusOr<std::vector<v1::Job>> Store::LoadProfiledJobs() const {
  std::vector<v1::Job> jobs;
  // ForEach cannot be stopped by its callback, so the first damage is kept
  // here.
  absl::Status damaged;
  RETURN_IF_ERROR(
      reader_->ForEach(kProfiledJobs, BindNothing, [&](SQLite::Statement& row) {
        if (!damaged.ok()) return;
        auto job = ReadRow<v1::Job>(row, 1, "jobs");
        if (job.ok()) {
          jobs.push_back(*std::move(job));
          return;
        }
        damaged = absl::DataLossError(absl::StrCat(
            "the row of job ", row.getColumn(0).getInt64(),
            ", which has recorded profiles, is damaged: its checksum differs; "
            "restore the state folder from a backup, or start the server with "
            "fewer --keep-jobs, so that the job is dropped once it has ended"));
      }));
  RETURN_IF_ERROR(damaged);
  return jobs;
}

absl::StatusOr<RetiredJobs> Store::FindRetired(absl::Time now) const {
  // Bounds what one batch deletes.
  constexpr uint64_t kMostAtOnce = 64;
  RetiredJobs retired;
  uint64_t with_events = 0;
  uint64_t without = 0;
  const auto count = [&](int has_events, uint64_t& into) {
    return reader_->ForEach(
        kEndedCount,
        [&](CachedStatement& statement) { statement->bind(1, has_events); },
        [&](SQLite::Statement& row) {
          into = static_cast<uint64_t>(row.getColumn(0).getInt64());
        });
  };
  const auto find = [&](int has_events, uint64_t most, auto take) {
    return reader_->ForEach(
        kLongEnded,
        [&](CachedStatement& statement) {
          statement->bind(1, has_events);
          statement->bind(2, absl::ToUnixNanos(now - options_.keep_at_least));
          statement.BindId(3, std::min(most, kMostAtOnce));
        },
        [&](SQLite::Statement& row) {
          take(static_cast<uint64_t>(row.getColumn(0).getInt64()),
               static_cast<v1::JobState>(row.getColumn(1).getInt()));
        });
  };
  RETURN_IF_ERROR(count(1, with_events));
  RETURN_IF_ERROR(count(0, without));
  const uint64_t all = with_events + without;
  const auto above = [](uint64_t number, uint64_t kept) {
    return kept == 0 || number < kept ? 0 : number - kept;
  };
  // Jobs lose their events before they are deleted; those without events go
  // first.
  const uint64_t too_many = above(all, options_.keep_jobs);
  RETURN_IF_ERROR(find(
      1,
      std::max(above(with_events, options_.keep_job_events),
               too_many > without ? too_many - without : 0),
      [&](uint64_t id, v1::JobState) { retired.events_of.push_back(id); }));
  RETURN_IF_ERROR(find(0, too_many, [&](uint64_t id, v1::JobState state) {
    retired.jobs.emplace_back(id, state);
  }));
  return retired;
}

absl::StatusOr<std::map<v1::JobState, uint64_t>> Store::CountJobs() const {
  std::map<v1::JobState, uint64_t> counts;
  RETURN_IF_ERROR(
      reader_->ForEach(kJobCounts, BindNothing, [&](SQLite::Statement& row) {
        counts[static_cast<v1::JobState>(row.getColumn(0).getInt())] =
            static_cast<uint64_t>(row.getColumn(1).getInt64());
      }));
  return counts;
}

absl::StatusOr<std::vector<v1::JobEvent>> Store::ReadEvents(uint64_t job_id,
                                                            uint64_t after,
                                                            int limit) const {
  // SQLite's integers are signed, and no sequence gets that far.
  if (after > INT64_MAX) return std::vector<v1::JobEvent>();
  return reader_->Select<v1::JobEvent>("job_events", kEvents,
                                       [&](CachedStatement& statement) {
                                         statement.BindId(1, job_id);
                                         statement.BindId(2, after);
                                         statement->bind(3, std::max(limit, 0));
                                       });
}

absl::StatusOr<uint64_t> Store::LastEventSequence(uint64_t job_id) const {
  uint64_t last = 0;
  RETURN_IF_ERROR(reader_->ForEach(
      kLastSequence, BindOneId(job_id), [&](SQLite::Statement& row) {
        last = static_cast<uint64_t>(row.getColumn(0).getInt64());
      }));
  return last;
}

// ---------------------------------------------------------------- datasets

absl::StatusOr<v1::Dataset> Store::GetDataset(absl::string_view name) const {
  return One(reader_->Select<v1::Dataset>("datasets", kDatasetByName,
                                          BindOneText(name)),
             absl::StrCat("there is no dataset \"", name, "\""));
}

absl::StatusOr<v1::ListDatasetsResponse> Store::ListDatasets(
    const v1::ListDatasetsRequest& request) const {
  ASSIGN_OR_RETURN(const int size, PageSize(request.page_size()));
  ASSIGN_OR_RETURN(const int64_t before,
                   ParseIdToken('d', request.page_token()));
  std::vector<v1::Dataset> datasets;
  RETURN_IF_ERROR(reader_->ForEachRow<v1::Dataset>(
      {"datasets", kDatasetPage},
      [&](CachedStatement& statement) {
        statement->bind(1, before);
        statement->bind(2, size + 1);
      },
      [&](v1::Dataset dataset) {
        datasets.push_back(WithoutDescription(std::move(dataset)));
      }));
  v1::ListDatasetsResponse response;
  const bool more = datasets.size() > static_cast<size_t>(size);
  if (more) datasets.pop_back();
  if (more) {
    response.set_next_page_token(
        MakePageToken('d', absl::StrCat(datasets.back().id())));
  }
  for (auto& dataset : datasets) {
    *response.add_datasets() = std::move(dataset);
  }
  return response;
}

absl::StatusOr<std::vector<v1::Dataset>> Store::LoadDatasets() const {
  std::vector<v1::Dataset> datasets;
  RETURN_IF_ERROR(reader_->ForEachRow<v1::Dataset>(
      {"datasets", kDatasets}, BindNothing, [&](v1::Dataset dataset) {
        datasets.push_back(WithoutDescription(std::move(dataset)));
      }));
  return datasets;
}

// ------------------------------------------------------------------ models

absl::StatusOr<v1::ModelVersion> Store::GetVersion(absl::string_view model,
                                                   uint64_t version) const {
  const std::string missing =
      version == 0
          ? absl::StrCat("there is no model \"", model, "\"")
          : absl::StrCat("model \"", model, "\" has no version ", version);
  return One(reader_->Select<v1::ModelVersion>("versions", kVersion,
                                               [&](CachedStatement& statement) {
                                                 statement.BindText(1, model);
                                                 statement.BindId(2, version);
                                               }),
             missing);
}

absl::StatusOr<v1::Model> Store::GetModel(absl::string_view name) const {
  ASSIGN_OR_RETURN(auto versions,
                   reader_->Select<v1::ModelVersion>(
                       "versions", kVersionsOfModel, BindOneText(name)));
  if (versions.empty()) {
    return absl::NotFoundError(
        absl::StrCat("there is no model \"", name, "\""));
  }
  v1::Model model;
  model.set_name(std::string(name));
  model.set_tenant(versions.front().tenant());
  model.set_shared(versions.front().shared());
  for (auto& version : versions) *model.add_versions() = std::move(version);
  return model;
}

absl::StatusOr<v1::ListModelsResponse> Store::ListModels(
    const v1::ListModelsRequest& request) const {
  ASSIGN_OR_RETURN(const int size, PageSize(request.page_size()));
  ASSIGN_OR_RETURN(const std::string after,
                   ParsePageToken('m', request.page_token()));
  std::vector<std::string> names;
  RETURN_IF_ERROR(reader_->ForEach(
      kModelPage,
      [&](CachedStatement& statement) {
        statement.BindText(1, after);
        statement->bind(2, size + 1);
      },
      [&](SQLite::Statement& row) {
        names.push_back(row.getColumn(0).getString());
      }));
  v1::ListModelsResponse response;
  if (names.size() > static_cast<size_t>(size)) {
    names.pop_back();
    response.set_next_page_token(MakePageToken('m', names.back()));
  }
  for (const std::string& name : names) {
    auto model = GetModel(name);
    // Its last version may have been deleted since the names were read.
    if (absl::IsNotFound(model.status())) continue;
    if (!model.ok()) return std::move(model).status();
    *response.add_models() = *std::move(model);
  }
  return response;
}

absl::StatusOr<std::vector<v1::ModelVersion>> Store::LoadVersions() const {
  return reader_->Select<v1::ModelVersion>("versions", kVersions, BindNothing);
}

// ------------------------------------------------- checkpoints and counters

absl::StatusOr<v1::Checkpoint> Store::GetCheckpoint(
    uint64_t job_id, std::optional<uint64_t> step) const {
  if (!step.has_value()) {
    return One(reader_->Select<v1::Checkpoint>("checkpoints", kLastCheckpoint,
                                               BindOneId(job_id)),
               absl::StrCat("job ", job_id, " has no checkpoint"));
  }
  auto found =
      One(reader_->Select<v1::Checkpoint>("checkpoints", kCheckpoint,
                                          [&](CachedStatement& statement) {
                                            statement.BindId(1, job_id);
                                            statement.BindId(2, *step);
                                          }),
          absl::StrCat("job ", job_id, " has no checkpoint at step ", *step));
  if (!absl::IsNotFound(found.status())) return found;
  ASSIGN_OR_RETURN(const auto others, LoadCheckpoints(job_id));
  if (others.empty()) return found;
  return absl::NotFoundError(absl::StrCat(
      std::string(found.status().message()), "; it has those of ",
      absl::StrJoin(others.end() - std::min<ptrdiff_t>(8, others.size()),
                    others.end(), ", ",
                    [](std::string* text, const v1::Checkpoint& checkpoint) {
                      absl::StrAppend(text, checkpoint.step());
                    }),
      others.size() > 8 ? " and earlier ones" : ""));
}

absl::StatusOr<std::vector<v1::Checkpoint>> Store::LoadCheckpoints(
    uint64_t job_id) const {
  return reader_->Select<v1::Checkpoint>("checkpoints", kCheckpoints,
                                         BindOneId(job_id));
}

absl::StatusOr<uint64_t> Store::GetCounter(absl::string_view name) const {
  uint64_t value = 0;
  RETURN_IF_ERROR(reader_->ForEach(
      kCounter, BindOneText(name), [&](SQLite::Statement& row) {
        value = static_cast<uint64_t>(row.getColumn(0).getInt64());
      }));
  return value;
}

absl::StatusOr<std::map<std::string, uint64_t>> Store::LoadCounters(
    absl::string_view prefix) const {
  std::map<std::string, uint64_t> counters;
  RETURN_IF_ERROR(reader_->ForEach(
      kCounters, BindOneText(prefix), [&](SQLite::Statement& row) {
        counters[row.getColumn(0).getString()] =
            static_cast<uint64_t>(row.getColumn(1).getInt64());
      }));
  return counters;
}

absl::StatusOr<std::vector<v1::Reservation>> Store::LoadReservations() const {
  return reader_->Select<v1::Reservation>("reservations", kReservations,
                                          BindNothing);
}

absl::StatusOr<std::vector<v1::DeviceBench>> Store::LoadDeviceBenches() const {
  return reader_->Select<v1::DeviceBench>("device_benches", kDeviceBenches,
                                          BindNothing);
}

absl::StatusOr<std::map<std::string, double>> Store::LoadMemoryFractions()
    const {
  std::map<std::string, double> fractions;
  RETURN_IF_ERROR(reader_->ForEach(
      kMemoryFractions, BindNothing, [&](SQLite::Statement& row) {
        fractions[row.getColumn(0).getString()] = row.getColumn(1).getDouble();
      }));
  return fractions;
}

absl::StatusOr<std::map<std::string, v1::DeviceDrain>> Store::LoadDrains()
    const {
  std::map<std::string, v1::DeviceDrain> drains;
  RETURN_IF_ERROR(
      reader_->ForEach(kDrains, BindNothing, [&](SQLite::Statement& row) {
        v1::DeviceDrain& drain = drains[row.getColumn(0).getString()];
        drain.set_lets_finish(row.getColumn(1).getInt() == 2);
        drain.set_reason(row.getColumn(2).getString());
      }));
  return drains;
}

absl::StatusOr<v1::GetUsageResponse> Store::GetUsage(
    const v1::GetUsageRequest& request, absl::Time now) const {
  return ReportUsage(*reader_, request, now);
}

uint32_t Store::schema_version() const { return CurrentSchemaVersion(); }

}  // namespace gpupool::server
