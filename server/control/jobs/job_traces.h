// Makes the spans of traced jobs from what each turn of the control thread
// commits:
//
//   job               from the submission to the end
//     queue           waits for a device
//     attempt         from the start on a device until the device is left
//       start         until the first step
//       checkpoint    is copied and written
//     back-off        waits after a failure
//
// A span is handed to the tracer when it ends. A job is traced if its row has a
// trace context. Ids follow from the job, and what is not known after a restart
// is read from the store, so that a restart of the server leaves the trace
// whole.
//
// Thread-safety: none; the control thread alone.
#pragma once

#include <cstdint>
#include <string>

#include "absl/container/btree_map.h"
#include "absl/time/time.h"
#include "gpupool/v1/job.pb.h"
#include "server/trace/tracer.h"

namespace gpupool::server {

class Store;
class Transaction;

class JobTraces {
 public:
  // Does nothing if `tracer` is null. Both must outlive it.
  JobTraces(Tracer* tracer, const Store* store)
      : tracer_(tracer), store_(store) {}

  // Makes the spans that have ended with this turn, which is on disk. The rows
  // of jobs that ended in it must still be there.
  void Take(Transaction& transaction);

 private:
  // The state of a traced job that has not ended.
  struct Progress {
    OpenSpan span;  // of the job
    v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
    absl::Time since;          // in this state
    absl::Time attempt_since;  // start of the live attempt
    std::string devices;       // of the live attempt
  };

  void TakeEvent(Transaction& transaction, const v1::JobEvent& event);
  // Returns the progress before the event, or null when it cannot be read.
  Progress* FindOrRestore(const v1::Job& job, uint64_t sequence);
  bool Restore(const v1::Job& job, uint64_t sequence, Progress* progress) const;
  static void Advance(const v1::JobEvent& event, Progress* progress);

  void TakeChange(const v1::Job& job, const v1::JobEvent& event,
                  const Progress& before);
  void TakeCheckpoint(const v1::JobEvent& event, const Progress& progress,
                      absl::Duration took);
  Span AttemptOf(const v1::JobEvent& event, const Progress& before) const;
  Span WholeJob(const v1::Job& job, const v1::JobEvent& event,
                const Progress& before) const;

  Tracer* const tracer_;
  const Store* const store_;
  absl::btree_map<uint64_t, Progress> jobs_;  // by id
};

}  // namespace gpupool::server
