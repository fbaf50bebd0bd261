// Rehearsals of versions in the worker "rehearsal", one at a time, so that it
// is certain which one ended the worker.
//
// Thread-safety: any thread. Callbacks come from the pool's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "gpupool/worker/v1/worker.pb.h"

namespace gpupool::server {

class WorkerPort;

class Rehearsals {
 public:
  // Gets OK, or
  //   INVALID_ARGUMENT     the version ended the process; the text says how
  //   UNAVAILABLE          the version could not be tried; it may be well
  //   other codes          those of the worker's Rehearse
  using Done = std::function<void(absl::Status)>;

  // Before Start every version gets UNAVAILABLE. `workers` must outlive this
  // object.
  void Start(WorkerPort* workers);
  // Rehearses the version as LoadVersion would load it. Its id is not used.
  void Add(worker::v1::LoadVersion version, Done done);

  // The rehearsal worker is there.
  void WorkerIsReady();
  // The rehearsal worker ended. `version_id`: the id in its work page.
  void WorkerIsLost(const absl::Status& reason, uint64_t version_id);

 private:
  struct Rehearsal {
    worker::v1::LoadVersion version;
    Done done;
    int unexplained_ends = 0;
  };

  // Sends the first rehearsal.
  void SendFirst();
  void TakeReply(uint64_t id, const absl::Status& status);
  // Ends the first rehearsal and begins the next.
  void EndFirst(const absl::Status& status);

  WorkerPort* workers_ = nullptr;
  absl::Mutex mutex_;
  std::deque<Rehearsal> waiting_ ABSL_GUARDED_BY(mutex_);  // first: the present
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace gpupool::server
