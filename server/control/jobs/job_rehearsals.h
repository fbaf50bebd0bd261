// Rehearsals that training jobs need before they get a device, and the jobs
// that wait for them. Jobs whose steps are alike (KeyOf) wait for one
// rehearsal, and later ones for none. Rehearsals that went well are on disk,
// and hold for this build and number of threads.
//
// Submissions do not wait: a job is acknowledged first and starts, or fails,
// when its rehearsal has ended.
//
// Thread-safety: control thread only, or before it starts. Ownership: the parts
// of the context must outlive this object, which must outlive their threads.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"

namespace gpupool::v1 {
class JobSpec;
}  // namespace gpupool::v1
namespace gpupool::worker::v1 {
class PlanTraining;
}  // namespace gpupool::worker::v1

namespace gpupool::server {

class Store;
class Transaction;
struct ControlContext;

class JobRehearsals {
 public:
  // Remembers options.remembered_rehearsals keys; others are forgotten in no
  // certain order.
  explicit JobRehearsals(const ControlContext& context) : context_(context) {}

  // Returns the key of everything that a step depends on: that of the plan, but
  // for the job's length, and how often it reports, evaluates and saves.
  static std::string KeyOf(const v1::JobSpec& spec, uint64_t dataset_id,
                           uint64_t validation_id = 0);

  // Reads which keys were rehearsed. Returns errors of the store.
  absl::Status Recover(const Store& store);
  // Rehearses the recovered jobs that have never started.
  void Resume(Transaction& transaction);

  // Returns whether a job with the key may start only after a rehearsal.
  bool Needs(const std::string& key) const;
  // Begins the rehearsal that the job needs, unless it has begun. Its end comes
  // to the job as JobRehearsed.
  void Await(Transaction& transaction, const std::string& key, uint64_t job_id,
             const worker::v1::PlanTraining& request);

 private:
  void Take(Transaction& transaction, const std::string& key,
            const absl::Status& status);
  void Remember(Transaction& transaction, const std::string& key);

  const ControlContext& context_;
  std::set<std::string> done_;     // keys
  std::set<std::string> useless_;  // counters of other builds, on disk
  absl::btree_map<std::string, std::vector<uint64_t>> waiting_;  // jobs by key
};

}  // namespace gpupool::server
