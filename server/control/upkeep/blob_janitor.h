// Removes blobs that nothing refers to any more: data of pruned checkpoints,
// deleted versions, dropped profiles, abandoned uploads. Also removes partial
// uploads that have expired.
//
// Thread-safety: any thread. A thread of its own does the work, so that reading
// manifests never delays the control thread.
#pragma once

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "server/store/blob_store.h"
#include "server/store/store.h"

namespace gpupool::server {

class BlobJanitor {
 public:
  struct Options {
    absl::Duration interval = absl::Minutes(10);
    absl::Duration min_age = absl::Hours(1);
    // Folder of the daemon, with the spools of the workers. Empty: no spools.
    std::string state_dir = {};
  };

  // Both pointers must outlive the janitor.
  BlobJanitor(Options options, const Store* store, const BlobStore* blobs);
  ~BlobJanitor();  // Stops.

  void Start();
  void Stop();
  // Sweeps soon instead of at the next interval.
  void Want();

  // Runs one sweep now. Removes partial uploads that have expired, then blobs.
  // Keeps what a report in a worker's spool names, unless the report came too
  // late to count. Removes no blob when a spool, or a manifest in use, cannot
  // be read. Keeps blobs that are older than the database, which may have been
  // those of a database that was lost, and logs how many no row names.
  absl::StatusOr<SweepResult> SweepOnce(absl::Time now);

 private:
  absl::StatusOr<absl::flat_hash_set<std::string>> References();
  absl::StatusOr<std::vector<worker::v1::Report>> Spooled() const;
  absl::StatusOr<std::vector<std::string>> FilesOf(const std::string& manifest);
  void SweepPartials(absl::Time now);
  absl::Status KeepOld(absl::flat_hash_set<std::string>& used);
  void Run();
  bool HasNews() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return wanted_ || stopping_;
  }

  const Options options_;
  const Store* store_;
  const BlobStore* blobs_;
  // Files named by each manifest. Used by the sweeping thread only.
  std::map<std::string, std::vector<std::string>> manifests_;
  size_t kept_old_ = 0;  // the number in the last line of the log
  absl::Mutex mutex_;
  bool wanted_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace gpupool::server
