// The daemon's durable state in one SQLite database (WAL, synchronous=FULL):
// jobs and their events, datasets, model versions, checkpoints, settings and
// reservations of devices, tokens, and id counters. A row is the v1 message
// itself beside the columns that reads select by.
//
// Thread-safety: one thread, the writer (the control thread), calls AllocateId,
// AllocateVersion and Commit. Every other function is a read, which any thread
// may call and which sees only committed data.
//
// Durability: when Commit returns OK the batch is on stable storage. When it
// fails nothing of the batch is, and the store refuses every later Commit: the
// kernel may have dropped the pages, so that a second try would report a false
// success. The process must exit at once; the next start reads the last
// committed state. A full disk alone is no failure as long as the reserve holds
// (disk_reserve.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gpupool/v1/auth.pb.h"
#include "gpupool/v1/dataset.pb.h"
#include "gpupool/v1/device.pb.h"
#include "gpupool/v1/job.pb.h"
#include "gpupool/v1/model.pb.h"
#include "gpupool/v1/reservation.pb.h"
#include "gpupool/v1/usage.pb.h"
#include "server/store/usage.h"

namespace gpupool::server {

class DiskReserve;
class StoreReader;
class StoreWriter;

struct StoreOptions {
  // Size of the reserve beside the database for a full disk.
  uint64_t reserve_bytes = 0;
  // Number of ended jobs that are kept, the latest ones, and for how many of
  // those the events are kept. 0: all. A job that ended less than
  // `keep_at_least` ago is always kept; that is also how long its request id is
  // known.
  uint64_t keep_jobs = 0;
  uint64_t keep_job_events = 0;
  absl::Duration keep_at_least = absl::Hours(24);
};

// Ended jobs to drop, one part at a time.
struct RetiredJobs {
  // Events are dropped already.
  std::vector<std::pair<uint64_t, v1::JobState>> jobs;
  std::vector<uint64_t> events_of;  // ids of jobs
};

enum class IdKind { kJob, kDataset, kVersion, kReservation, kToken };

// Changes that are committed together.
struct WriteBatch {
  // Arrays without their counts, which follow from the tasks. An array goes
  // with the last of its tasks that is deleted.
  std::vector<v1::JobArray> insert_arrays;
  std::vector<v1::Job> upsert_jobs;         // (tenant, request_id) unique
  std::vector<v1::JobEvent> append_events;  // (job_id, sequence) never exists
  std::vector<v1::Dataset> upsert_datasets;
  std::vector<uint64_t> delete_datasets;  // ids
  std::vector<v1::ModelVersion> upsert_versions;
  std::vector<uint64_t> delete_versions;           // ids
  std::vector<v1::Checkpoint> upsert_checkpoints;  // key: job_id, step
  std::vector<std::pair<uint64_t, uint64_t>> delete_checkpoints;
  std::vector<uint64_t> delete_jobs;  // ids, with their checkpoints
  // Ids of jobs. The first 10,000 events of each are deleted.
  std::vector<uint64_t> delete_events;
  // Single events, by job and sequence, before the newest kEventsKept.
  std::vector<std::pair<uint64_t, uint64_t>> thin_events;
  // Named numbers, for example the last report seen of a worker's boot.
  std::map<std::string, uint64_t> set_counters;
  std::vector<std::string> delete_counters;
  std::map<std::string, double> set_memory_fractions;  // by device
  // Drains by device; without a value the device is resumed.
  std::map<std::string, std::optional<v1::DeviceDrain>> set_drains;
  std::map<std::string, v1::DeviceBench> set_device_benches;  // by device
  std::vector<v1::Reservation> upsert_reservations;  // request_id unique
  std::vector<uint64_t> delete_reservations;         // ids
  std::vector<v1::StoredToken> upsert_tokens;        // secret_sha256 unique
  std::map<uint64_t, absl::Time> set_token_uses;     // last uses by id
  std::vector<uint64_t> delete_tokens;               // ids
  // Sums to add. Deleting a job turns its sums into those of no job.
  std::map<UsageKey, UsageSums> add_usage;

  bool empty() const;
};

class Store {
 public:
  // Opens or creates the database file and updates its schema. Errors:
  //   * FailedPrecondition: written by a newer gpupool
  //   * DataLoss: not a database, or damaged
  //   * Unavailable: cannot be opened, or locked by another process
  static absl::StatusOr<std::unique_ptr<Store>> Open(
      const std::string& path, const StoreOptions& options = {});
  ~Store();

  // ------------------------------------------------------- writer thread
  // Returns the next id of a kind, from 1. It is durable with the next Commit
  // and must not be shown to anybody before.
  uint64_t AllocateId(IdKind kind);
  // Returns the next version number within a model, from 1, by the same rule.
  // Numbers of deleted versions are not reused.
  uint64_t AllocateVersion(const std::string& model);
  // Makes later numbers within the model larger than `number`, by the same
  // rule.
  void RaiseVersion(const std::string& model, uint64_t number);
  // Writes the batch and all allocated ids in one transaction.
  absl::Status Commit(const WriteBatch& batch);
  // Checks whether the disk has room again. Call from time to time.
  void LookAtDisk(absl::Time now);

  // --------------------------------------------------------------- reads
  // Returns ResourceExhausted while the disk is too full for anything new.
  absl::Status CheckRoom() const;
  // NotFound names the id.
  absl::StatusOr<v1::Job> GetJob(uint64_t id) const;
  absl::StatusOr<std::optional<v1::Job>> FindByRequestId(
      absl::string_view tenant, absl::string_view request_id) const;
  // Returns the newest first. page_size 0 means 100, more than 1000 means 1000.
  // InvalidArgument for a page token that ListJobs did not make.
  absl::StatusOr<v1::ListJobsResponse> ListJobs(
      const v1::ListJobsRequest& request) const;
  // Returns arrays with their counts. GetArray: NotFound names the id.
  absl::StatusOr<v1::JobArray> GetArray(uint64_t id) const;
  absl::StatusOr<std::optional<v1::JobArray>> FindArrayByRequestId(
      absl::string_view tenant, absl::string_view request_id) const;
  absl::StatusOr<v1::ListArraysResponse> ListArrays(
      const v1::ListArraysRequest& request) const;
  // Returns the jobs that have not ended, by rising id.
  absl::StatusOr<std::vector<v1::Job>> LoadAllActiveJobs() const;
  // Returns the jobs with recorded profiles, ended ones too, by rising id. An
  // unreadable row is DataLoss, which names its job.
  absl::StatusOr<std::vector<v1::Job>> LoadProfiledJobs() const;
  // Returns the next part of what the options allow to drop; empty when there
  // is nothing.
  absl::StatusOr<RetiredJobs> FindRetired(absl::Time now) const;
  // Returns the number of jobs per state. States without jobs are absent.
  absl::StatusOr<std::map<v1::JobState, uint64_t>> CountJobs() const;

  // Returns at most `limit` events with sequence > `after`, rising. An unknown
  // job has none.
  absl::StatusOr<std::vector<v1::JobEvent>> ReadEvents(uint64_t job_id,
                                                       uint64_t after,
                                                       int limit) const;
  // Returns 0 when the job has no events.
  absl::StatusOr<uint64_t> LastEventSequence(uint64_t job_id) const;

  absl::StatusOr<v1::Dataset> GetDataset(absl::string_view name) const;
  // Leaves out descriptions and given categories, which may have megabytes for
  // each dataset. So does LoadDatasets.
  absl::StatusOr<v1::ListDatasetsResponse> ListDatasets(
      const v1::ListDatasetsRequest& request) const;
  absl::StatusOr<std::vector<v1::Dataset>> LoadDatasets() const;

  // Returns the version; `version` 0 means the newest.
  absl::StatusOr<v1::ModelVersion> GetVersion(absl::string_view model,
                                              uint64_t version) const;
  // Returns NotFound when the model has no version.
  absl::StatusOr<v1::Model> GetModel(absl::string_view name) const;
  // Returns models by name.
  absl::StatusOr<v1::ListModelsResponse> ListModels(
      const v1::ListModelsRequest& request) const;
  // Returns all versions by rising id.
  absl::StatusOr<std::vector<v1::ModelVersion>> LoadVersions() const;

  // Returns the checkpoint of `step`, without it the newest. NotFound names job
  // and step.
  absl::StatusOr<v1::Checkpoint> GetCheckpoint(
      uint64_t job_id, std::optional<uint64_t> step) const;
  // Returns checkpoints by rising step; job_id 0 means of all jobs.
  absl::StatusOr<std::vector<v1::Checkpoint>> LoadCheckpoints(
      uint64_t job_id) const;

  // Returns 0 when it was never set.
  absl::StatusOr<uint64_t> GetCounter(absl::string_view name) const;
  absl::StatusOr<std::map<std::string, uint64_t>> LoadCounters(
      absl::string_view prefix) const;

  // Returns the fractions by device. A device without a setting is absent.
  absl::StatusOr<std::map<std::string, double>> LoadMemoryFractions() const;
  // Returns the drains of drained devices.
  absl::StatusOr<std::map<std::string, v1::DeviceDrain>> LoadDrains() const;

  // Returns the last measurements of each device that was measured, by name.
  absl::StatusOr<std::vector<v1::DeviceBench>> LoadDeviceBenches() const;

  // Returns all reservations by rising id.
  absl::StatusOr<std::vector<v1::Reservation>> LoadReservations() const;

  // Returns all tokens by rising id, with their last uses.
  absl::StatusOr<std::vector<v1::StoredToken>> LoadTokens() const;

  // Returns sums of usage. InvalidArgument for a `since` after `until` (which
  // defaults to now), or for a page token that GetUsage did not make.
  absl::StatusOr<v1::GetUsageResponse> GetUsage(
      const v1::GetUsageRequest& request, absl::Time now) const;

  uint32_t schema_version() const;

 private:
  absl::Status CountTasks(v1::JobArray& array) const;

  Store(StoreOptions options, std::unique_ptr<DiskReserve> reserve,
        std::unique_ptr<StoreWriter> writer,
        std::unique_ptr<StoreReader> reader);

  const StoreOptions options_;
  std::unique_ptr<DiskReserve> reserve_;
  std::unique_ptr<StoreWriter> writer_;
  std::unique_ptr<StoreReader> reader_;
};

}  // namespace gpupool::server
