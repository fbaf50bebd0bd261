// The daemon's side of the workers: one process per device, spawned or found
// alive. The pool talks to them over a socket and a slot ring, watches them,
// and restarts them with back-off when they end or hang.
//
// Thread-safety: any thread may call every public method of WorkerPool.
// Observer calls and reply callbacks come from the pool's one thread, in the
// order of events. They must be short, and may call the pool again, except
// Shutdown.
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
#include "server/ipc/work_page.h"
#include "server/pool/worker_port.h"

namespace gpupool::worker::v1 {
class Heartbeat;
class HelloReply;
class Report;
}  // namespace gpupool::worker::v1

namespace gpupool::server {

// Receives the events of workers. Implemented by control.
class WorkerObserver {
 public:
  virtual ~WorkerObserver() = default;

  // The worker answers: it is new, or was found alive with what it runs and
  // serves. WorkerPool::ring(device) is the ring of this connection from now
  // on.
  virtual void OnWorkerReady(const std::string& device,
                             const worker::v1::HelloReply& reply) = 0;
  // The worker is gone or unreachable. Its slots and requests have been
  // answered Unavailable. `reason` tells what was seen (exit code, signal, no
  // heartbeat). Also called when a worker cannot be started at all; then there
  // was no OnWorkerReady before. Not called for workers that end because
  // Shutdown drains them. The code of `reason` tells the cause:
  //   * UNAVAILABLE: the worker ended, or does not answer
  //   * DEADLINE_EXCEEDED: it was killed for work that hangs
  //   * ABORTED: a fault of the device ended it; the next worker may go on
  //   * DATA_LOSS: the device itself is suspect; it is in quarantine, and no
  //     worker is started for it again
  // `work` names whose work the worker did as it ended. It is empty when that
  // is unknown, and when the worker did none.
  virtual void OnWorkerLost(const std::string& device,
                            const absl::Status& reason,
                            const WorkOwner& work) = 0;
  // The worker reports. Acknowledge the report once it is on disk.
  virtual void OnReport(const std::string& device,
                        const worker::v1::Report& report) = 0;
  virtual void OnHeartbeat(const std::string& device,
                           const worker::v1::Heartbeat& heartbeat) = 0;
};

struct PoolDevice {
  // "cpu:0", "cuda:1", or "meta" or "rehearsal", which have no ring.
  std::string name;
  uint64_t limit_bytes = 0;
  uint32_t threads = 1;
  // Highest report sequence on the daemon's disk; 0 when unknown.
  uint64_t last_report_sequence = 0;
  // For "meta": the kind of device that plans are made for.
  std::string plan_for = "cpu";
  // For "meta": that device's facts from its worker; may be empty.
  std::string plan_facts;
  // Whether jobs may run on this device and others together. The pool sets it.
  bool joins_groups = false;
};

struct PoolOptions {
  std::string state_dir;
  std::string worker_binary;  // path of gpupool-worker
  // Folders of NVIDIA's libraries, for every worker; may be empty.
  std::string cuda_lib_dir;
  std::string daemon_boot_id;
  std::vector<PoolDevice> devices;
  SlotRingOptions ring;
  absl::Duration start_timeout = absl::Seconds(20);  // spawn to HelloReply
  absl::Duration heartbeat_timeout = absl::Seconds(5);
  // Minimum duration of a training step or batch of requests that counts as a
  // hang, if it is also 20 times as long as those of the same job or version
  // took before. The worker is then killed. The first step of a job and all
  // other work may take 30 times this duration. Zero: never.
  absl::Duration hang_timeout;
  // Time between checkpoints of jobs that name no number of steps. Zero: none.
  absl::Duration checkpoint_interval;
  std::string log_format = "text";  // of workers that are started: or "json"
  std::string sandbox = "auto";     // of workers that are started: or "off"
  absl::Duration backoff_min = absl::Milliseconds(100);  // doubles
  absl::Duration backoff_max = absl::Seconds(10);
  // Life of a worker after which it starts again at backoff_min.
  absl::Duration stable_after = absl::Seconds(30);
  absl::Duration orphan_timeout = absl::Seconds(60);
};

class WorkerPool : public WorkerPort {
 public:
  // Starts the pool's thread, which at once begins to adopt or spawn every
  // device: the observer may be called before Create has returned. `observer`
  // must outlive the pool. InvalidArgument for an invalid or duplicate device
  // name; NotFound when the binary is not executable.
  static absl::StatusOr<std::unique_ptr<WorkerPool>> Create(
      PoolOptions options, WorkerObserver* observer);
  // Detaches if Shutdown was not called.
  ~WorkerPool() override;

  void Send(const std::string& device, worker::v1::ToWorker message,
            absl::Duration timeout, ReplyCallback callback) override;
  void Post(const std::string& device, worker::v1::ToWorker message) override;
  void AcknowledgeReports(const std::string& device,
                          uint64_t through_sequence) override;
  WorkerStatus status(const std::string& device) const override;

  // Returns null while the worker is not ready, and always for "meta".
  std::shared_ptr<SlotRingClient> ring(const std::string& device) const;

  enum class ShutdownMode {
    kDrain,   // workers finish the step, checkpoint and exit
    kDetach,  // workers live on; a later pool re-adopts them
  };
  // Stops the pool. Blocks until done. With kDrain, workers that still live
  // after `grace` are killed (their jobs resume from the last checkpoint);
  // reports keep coming meanwhile. Afterwards every call answers Unavailable.
  // Idempotent.
  void Shutdown(ShutdownMode mode, absl::Duration grace = absl::Seconds(30));

 private:
  class Impl;
  explicit WorkerPool(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpupool::server
