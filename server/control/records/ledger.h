// Everything that the control thread decides on: the scheduler's state and the
// rows that mirror the store.
//
// Thread-safety: none; the control thread alone.
//
// Invariants
//  1. `jobs` holds exactly the jobs that have not ended (plus, until the end
//     of the transaction, those that ended in it).
//  2. Between transactions every row equals the one in the store.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gpupool/v1/job.pb.h"
#include "gpupool/v1/model.pb.h"
#include "gpupool/v1/reservation.pb.h"
#include "scheduler/state/state.h"

namespace gpupool::server {

struct JobRow {
  v1::Job job;
  uint64_t next_sequence = 1;
  absl::Time queued_since;
  std::deque<uint64_t> checkpoint_steps;  // steps in the store, rising
};

class Ledger {
 public:
  scheduler::State state;
  absl::btree_map<uint64_t, JobRow> jobs;
  // Reservations by id, including the kept ones that have ended.
  absl::btree_map<uint64_t, v1::Reservation> reservations;
  // Sequence of the last report that was taken from each device.
  absl::btree_map<std::string, uint64_t> report_sequences;
  // Whether versions that jobs make belong to the jobs' tenants. False where
  // nobody has a token, so that nobody's tenant is known.
  bool keeps_tenants_apart = false;
  // Numbers of all jobs by state, including ended ones.
  std::map<v1::JobState, uint64_t> job_counts;

  // Adds a row and its indexes. The caller must tell the scheduler.
  JobRow& AddJob(v1::Job job);
  // Returns null for an unknown or ended job.
  JobRow* FindJob(uint64_t id);
  // Drops the rows of an ended job.
  void RemoveJob(uint64_t id);
  // Returns the job that was submitted with this id and has not ended, or null.
  JobRow* FindRequest(const std::string& tenant, const std::string& request_id);
  // Returns a job that reads the dataset and has not ended; 0: none.
  uint64_t UserOfDataset(const std::string& dataset) const;

  v1::ModelVersion& AddVersion(v1::ModelVersion version);
  v1::ModelVersion* FindVersion(uint64_t id);
  // Returns the version, for `number` 0 the newest; null when there is none.
  v1::ModelVersion* FindVersion(const std::string& model, uint64_t number);
  void RemoveVersion(uint64_t id);
  // Returns all versions by id.
  const absl::btree_map<uint64_t, v1::ModelVersion>& versions() const {
    return versions_;
  }
  bool HasModel(const std::string& model) const;
  // Returns the ids of a model's versions, rising.
  std::vector<uint64_t> VersionsOf(const std::string& model) const;
  // Gives a new version the tenant of its model, if the model exists, and
  // shares it as that one is shared. AlreadyExists if another tenant has the
  // model; a version without a tenant fits to every model.
  absl::Status SettleTenant(v1::ModelVersion* version);
  // Returns true when a version was made from the checkpoint.
  bool IsPublished(uint64_t job, uint64_t step) const;

 private:
  using Request = std::pair<std::string, std::string>;

  absl::flat_hash_map<Request, uint64_t> requests_;
  absl::btree_map<std::string, absl::btree_map<uint64_t, bool>> dataset_users_;
  absl::btree_map<uint64_t, v1::ModelVersion> versions_;
  absl::btree_map<std::string, absl::btree_map<uint64_t, uint64_t>> models_;
};

}  // namespace gpupool::server
