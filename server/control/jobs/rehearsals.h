// Rehearsals of versions and of training jobs in the worker "rehearsal", one at
// a time, so that it is certain which one ended the worker. They come in order,
// but after a tenant's job comes somebody else's if one waits, so that a tenant
// with many jobs that hang delays others by one of them only.
//
// Thread-safety: any thread. Callbacks come from the pool's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "server/pool/worker_end.h"

namespace gpupool::server {

class Metrics;
class WorkerPort;

class Rehearsals {
 public:
  // Gets OK, or
  //   INVALID_ARGUMENT     it ended the process; the text says how
  //   RESOURCE_EXHAUSTED   something outside of the server killed the process
  //                        twice, usually the system because memory ran out;
  //                        it may be fine
  //   UNAVAILABLE          it could not be tried; it may be fine
  //   other codes          those of the worker's rehearsal.h
  using Done = std::function<void(absl::Status)>;

  // Before Start everything gets UNAVAILABLE. `workers` must outlive this
  // object, and so must `metrics`, which may be null.
  void Start(WorkerPort* workers, Metrics* metrics = nullptr);
  // Rehearses the version as LoadVersion would load it. Its id is not used.
  void Add(worker::v1::LoadVersion version, Done done);
  // Makes a step of the job that is to be planned.
  void AddTraining(worker::v1::PlanTraining job, Done done);

  // Sends the first rehearsal to the worker, which is ready now.
  void WorkerIsReady();
  // Ends the first rehearsal if it ended the worker. A SIGKILL from outside is
  // forgiven once. `work` is the owner in the worker's work page.
  void WorkerIsLost(const absl::Status& reason, const WorkOwner& work);

 private:
  struct Rehearsal {
    uint64_t id = 0;
    worker::v1::ToWorker message;
    std::string tenant;  // empty: a version
    Done done;
    int unexplained_ends = 0;
    int kills = 0;  // from outside of the server
  };

  void Append(worker::v1::ToWorker message, Done done);
  // Sends the first rehearsal.
  void SendFirst();
  void TakeReply(uint64_t id, const absl::Status& status);
  // Brings the first rehearsal of somebody else to the front.
  void PutOthersFirst(const std::string& tenant)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the first rehearsal and begins the next.
  void EndFirst(const absl::Status& status);

  // Counts the loss of the worker for the first rehearsal and returns with what
  // status that ends. Returns nothing when it is to be tried again.
  std::optional<absl::Status> EndAfterLoss(const absl::Status& reason,
                                           const WorkOwner& work)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Sets the metric of waiting rehearsals.
  void TellOfWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  WorkerPort* workers_ = nullptr;
  Metrics* metrics_ = nullptr;
  absl::Mutex mutex_;
  std::deque<Rehearsal> waiting_ ABSL_GUARDED_BY(mutex_);  // first: the present
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace gpupool::server
