// Everything that the control thread decides on: the scheduler's state beside
// the rows that mirror the store.
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
  std::deque<uint64_t> checkpoint_steps;  // in the store, rising
};

class Ledger {
 public:
  scheduler::State state;
  absl::btree_map<uint64_t, JobRow> jobs;
  // By id; those that have ended, too, as far as they are kept.
  absl::btree_map<uint64_t, v1::Reservation> reservations;
  // Where each device's reports have been taken up to.
  absl::btree_map<std::string, uint64_t> report_sequences;
  // Of all jobs, ended ones too.
  std::map<v1::JobState, uint64_t> job_counts;

  // Adds a row and its indexes; the caller tells the scheduler.
  JobRow& AddJob(v1::Job job);
  // Null when unknown or ended.
  JobRow* FindJob(uint64_t id);
  // Drops the rows of an ended job.
  void RemoveJob(uint64_t id);
  // The job that has not ended and was submitted with this id, or null.
  JobRow* FindRequest(const std::string& tenant, const std::string& request_id);
  // A job that has not ended and reads the dataset; 0 when there is none.
  uint64_t UserOfDataset(const std::string& dataset) const;

  v1::ModelVersion& AddVersion(v1::ModelVersion version);
  v1::ModelVersion* FindVersion(uint64_t id);
  // `number` 0: the newest. Null when there is none.
  v1::ModelVersion* FindVersion(const std::string& model, uint64_t number);
  void RemoveVersion(uint64_t id);
  // By id.
  const absl::btree_map<uint64_t, v1::ModelVersion>& versions() const {
    return versions_;
  }
  bool HasModel(const std::string& model) const;
  // Ids of a model's versions, rising.
  std::vector<uint64_t> VersionsOf(const std::string& model) const;
  // True when a version was made from the checkpoint.
  bool IsPublished(uint64_t job, uint64_t step) const;

 private:
  using Request = std::pair<std::string, std::string>;

  absl::flat_hash_map<Request, uint64_t> requests_;
  absl::btree_map<std::string, absl::btree_map<uint64_t, bool>> dataset_users_;
  absl::btree_map<uint64_t, v1::ModelVersion> versions_;
  absl::btree_map<std::string, absl::btree_map<uint64_t, uint64_t>> models_;
};

}  // namespace gpupool::server
