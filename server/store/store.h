// The daemon's durable state: jobs and their events, datasets, model versions,
// checkpoints, settings and reservations of devices and id counters, in one
// SQLite database (WAL, synchronous=FULL). A row is the v1 message itself
// beside the columns that reads select by.
//
// Threads: one thread, the writer (the control thread), calls AllocateId,
// AllocateVersion and Commit. Every other function is a read, serves any
// thread, and sees only what was committed.
//
// Durability: when Commit returns OK the batch is on stable storage. When it
// fails nothing of the batch is, and the store refuses every later Commit: the
// kernel may have dropped the pages, so trying again would lie. The process
// must exit at once; the next start reads what was committed before. A full
// disk alone is no failure as long as the reserve holds (disk_reserve.h).
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
  // Kept beside the database for the time when the disk is full.
  uint64_t reserve_bytes = 0;
  // Of jobs that have ended so many are kept, the last to end, and of so many
  // of those the events. 0: all. Whatever ended less than `keep_at_least` ago
  // stays: so long a request id is known after its job's end.
  uint64_t keep_jobs = 0;
  uint64_t keep_job_events = 0;
  absl::Duration keep_at_least = absl::Hours(24);
};

// Jobs that need not be kept, a part of them at a time.
struct RetiredJobs {
  std::vector<std::pair<uint64_t, v1::JobState>> jobs;  // without events
  std::vector<uint64_t> events_of;                      // ids of jobs
};

enum class IdKind { kJob, kDataset, kVersion, kReservation };

// Everything that becomes true at one moment.
struct WriteBatch {
  // Without counts, which follow from the tasks. An array goes with the last
  // of its tasks that is deleted.
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
  // Ids of jobs; the first 10,000 events of each go.
  std::vector<uint64_t> delete_events;
  // Single ones: job and sequence.
  std::vector<std::pair<uint64_t, uint64_t>> thin_events;
  // Named numbers, such as the last report seen of a worker's boot.
  std::map<std::string, uint64_t> set_counters;
  std::vector<std::string> delete_counters;
  std::map<std::string, double> set_memory_fractions;  // by device
  // By device; nothing: it is resumed.
  std::map<std::string, std::optional<v1::DeviceDrain>> set_drains;
  std::vector<v1::Reservation> upsert_reservations;  // request_id unique
  std::vector<uint64_t> delete_reservations;         // ids
  // To what is there. Deleting a job makes its sums those of no job.
  std::map<UsageKey, UsageSums> add_usage;

  bool empty() const;
};

class Store {
 public:
  // Opens or creates the database file and brings its schema up to date.
  //   FailedPrecondition  written by a newer gpupool
  //   DataLoss            not a database, or damaged
  //   Unavailable         cannot be opened, locked by another process
  static absl::StatusOr<std::unique_ptr<Store>> Open(
      const std::string& path, const StoreOptions& options = {});
  ~Store();

  // ------------------------------------------------------- writer thread
  // The next id of a kind, from 1. It is durable with the next Commit and
  // must not be shown to anybody before.
  uint64_t AllocateId(IdKind kind);
  // The next version number within a model, from 1; same rule. Numbers of
  // deleted versions are not given again.
  uint64_t AllocateVersion(const std::string& model);
  // Writes the batch and all allocated ids in one transaction.
  absl::Status Commit(const WriteBatch& batch);
  // To be called now and then: sees that the disk has room again.
  void LookAtDisk(absl::Time now);

  // --------------------------------------------------------------- reads
  // ResourceExhausted while the disk is too full for anything new.
  absl::Status CheckRoom() const;
  // NotFound names the id.
  absl::StatusOr<v1::Job> GetJob(uint64_t id) const;
  absl::StatusOr<std::optional<v1::Job>> FindByRequestId(
      absl::string_view tenant, absl::string_view request_id) const;
  // Newest first. page_size 0 means 100, more than 1000 means 1000.
  // InvalidArgument for a page token that ListJobs did not make.
  absl::StatusOr<v1::ListJobsResponse> ListJobs(
      const v1::ListJobsRequest& request) const;
  // With their counts. GetArray: NotFound names the id.
  absl::StatusOr<v1::JobArray> GetArray(uint64_t id) const;
  absl::StatusOr<std::optional<v1::JobArray>> FindArrayByRequestId(
      absl::string_view tenant, absl::string_view request_id) const;
  absl::StatusOr<v1::ListArraysResponse> ListArrays(
      const v1::ListArraysRequest& request) const;
  // Jobs that have not ended, by rising id.
  absl::StatusOr<std::vector<v1::Job>> LoadAllActiveJobs() const;
  // What has been kept longer than the options ask for; empty when that is
  // nothing.
  absl::StatusOr<RetiredJobs> FindRetired(absl::Time now) const;
  // Number of jobs per state; states without jobs are absent.
  absl::StatusOr<std::map<v1::JobState, uint64_t>> CountJobs() const;

  // Events with sequence > `after`, rising, at most `limit`. An unknown job
  // has none.
  absl::StatusOr<std::vector<v1::JobEvent>> ReadEvents(uint64_t job_id,
                                                       uint64_t after,
                                                       int limit) const;
  // 0 when the job has no events.
  absl::StatusOr<uint64_t> LastEventSequence(uint64_t job_id) const;

  absl::StatusOr<v1::Dataset> GetDataset(absl::string_view name) const;
  absl::StatusOr<v1::ListDatasetsResponse> ListDatasets(
      const v1::ListDatasetsRequest& request) const;
  absl::StatusOr<std::vector<v1::Dataset>> LoadDatasets() const;

  // `version` 0 means the newest.
  absl::StatusOr<v1::ModelVersion> GetVersion(absl::string_view model,
                                              uint64_t version) const;
  // NotFound when the model has no version.
  absl::StatusOr<v1::Model> GetModel(absl::string_view name) const;
  // By name.
  absl::StatusOr<v1::ListModelsResponse> ListModels(
      const v1::ListModelsRequest& request) const;
  // All versions, by rising id.
  absl::StatusOr<std::vector<v1::ModelVersion>> LoadVersions() const;

  // Without `step`: the newest checkpoint. NotFound names job and step.
  absl::StatusOr<v1::Checkpoint> GetCheckpoint(
      uint64_t job_id, std::optional<uint64_t> step) const;
  // Rising step; job_id 0 means of all jobs.
  absl::StatusOr<std::vector<v1::Checkpoint>> LoadCheckpoints(
      uint64_t job_id) const;

  // 0 when it was never set.
  absl::StatusOr<uint64_t> GetCounter(absl::string_view name) const;
  absl::StatusOr<std::map<std::string, uint64_t>> LoadCounters(
      absl::string_view prefix) const;

  // By device; those that were never set are absent.
  absl::StatusOr<std::map<std::string, double>> LoadMemoryFractions() const;
  // Of those devices that are drained.
  absl::StatusOr<std::map<std::string, v1::DeviceDrain>> LoadDrains() const;

  // All reservations, by rising id.
  absl::StatusOr<std::vector<v1::Reservation>> LoadReservations() const;

  // InvalidArgument for a `since` after `until` (now, without one), or a page
  // token that GetUsage did not make.
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
