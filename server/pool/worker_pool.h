// The daemon's side of the workers: one process per device, spawned or found
// alive from before, spoken to over a socket and a slot ring, watched, and
// restarted with back-off when it ends or hangs.
//
// Thread-safety: every public method of WorkerPool may be called from any
// thread. Observer calls and reply callbacks come from the pool's one thread,
// in the order in which things happened; they must be short and may call the
// pool again (but Shutdown).
//
// Invariants
//  1. Between OnWorkerReady and OnWorkerLost of a device, and only there,
//     come its reports, heartbeats and replies. What an older connection or
//     an older boot of the worker sent late is dropped.
//  2. Every Send gets exactly one answer.
//  3. A report is forwarded once per daemon life and stays in the worker's
//     spool until it has been acknowledged.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/ipc/slot_ring.h"
#include "server/pool/worker_port.h"

namespace gpupool::worker::v1 {
class Heartbeat;
class HelloReply;
class Report;
}  // namespace gpupool::worker::v1

namespace gpupool::server {

// Hears what happens to the workers. Implemented by control.
class WorkerObserver {
 public:
  virtual ~WorkerObserver() = default;

  // The worker answers: new, or found alive with what it runs and serves.
  // WorkerPool::ring(device) is the ring of this connection from now on.
  virtual void OnWorkerReady(const std::string& device,
                             const worker::v1::HelloReply& reply) = 0;
  // The worker is gone or unreachable: its slots and requests have been
  // answered Unavailable. `reason` says what was seen (exit code, signal, no
  // heartbeat). Also told when a worker cannot be started at all; then there
  // was no OnWorkerReady before. Not told of workers that end because
  // Shutdown drains them. Its code says of what kind it is:
  //   UNAVAILABLE        the worker ended, or does not answer
  //   DEADLINE_EXCEEDED  it was killed for work that hangs
  //   ABORTED            a fault of the device ended it; the next may go on
  //   DATA_LOSS          the device itself is suspect: it is in quarantine, no
  //                      worker is started for it again
  virtual void OnWorkerLost(const std::string& device,
                            const absl::Status& reason) = 0;
  // Acknowledge once it is on disk.
  virtual void OnReport(const std::string& device,
                        const worker::v1::Report& report) = 0;
  virtual void OnHeartbeat(const std::string& device,
                           const worker::v1::Heartbeat& heartbeat) = 0;
};

struct PoolDevice {
  std::string name;  // "cpu:0", "cuda:1" or "meta" (which has no ring)
  uint64_t limit_bytes = 0;
  uint32_t threads = 1;
  // Highest report sequence on the daemon's disk; 0 when not known.
  uint64_t last_report_sequence = 0;
  // meta: a device of the kind that plans are made for.
  std::string plan_for = "cpu";
  // meta: what that device is, as its worker told it; may be empty.
  std::string plan_facts;
};

struct PoolOptions {
  std::string state_dir;
  std::string worker_binary;  // path of gpupool-worker
  // Handed to every worker: folders of NVIDIA's libraries; may be empty.
  std::string cuda_lib_dir;
  std::string daemon_boot_id;
  std::vector<PoolDevice> devices;
  SlotRingOptions ring;
  absl::Duration start_timeout = absl::Seconds(20);  // spawn to HelloReply
  absl::Duration heartbeat_timeout = absl::Seconds(5);
  // A training step or a batch of requests that takes longer, and 20 times as
  // long as such work took before, hangs: the worker is killed. Other work may
  // take 30 times as long. Zero: nothing is too long.
  absl::Duration hang_timeout = absl::Seconds(60);
  absl::Duration backoff_min = absl::Milliseconds(100);  // doubles
  absl::Duration backoff_max = absl::Seconds(10);
  // A worker that lived this long starts again at backoff_min.
  absl::Duration stable_after = absl::Seconds(30);
  absl::Duration orphan_timeout = absl::Seconds(60);
};

class WorkerPool : public WorkerPort {
 public:
  // Starts the pool's thread, which at once begins to adopt or spawn every
  // device: the observer may be called before Create has returned. `observer`
  // must outlive the pool. InvalidArgument for a bad or doubled device name;
  // NotFound when the binary is not executable.
  static absl::StatusOr<std::unique_ptr<WorkerPool>> Create(
      PoolOptions options, WorkerObserver* observer);
  // Detaches when Shutdown was not called.
  ~WorkerPool() override;

  void Send(const std::string& device, worker::v1::ToWorker message,
            absl::Duration timeout, ReplyCallback callback) override;
  void Post(const std::string& device, worker::v1::ToWorker message) override;
  void AcknowledgeReports(const std::string& device,
                          uint64_t through_sequence) override;
  WorkerStatus status(const std::string& device) const override;

  // Null while the worker is not ready, and always for "meta".
  std::shared_ptr<SlotRingClient> ring(const std::string& device) const;

  enum class ShutdownMode {
    kDrain,   // workers finish the step, checkpoint and exit
    kDetach,  // workers go on by themselves; a later pool re-adopts them
  };
  // Blocks until done. With kDrain, workers that still live after `grace` are
  // killed (their jobs resume from the last checkpoint); reports keep coming
  // meanwhile. Afterwards every call answers Unavailable. Idempotent.
  void Shutdown(ShutdownMode mode, absl::Duration grace = absl::Seconds(30));

 private:
  class Impl;
  explicit WorkerPool(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpupool::server
