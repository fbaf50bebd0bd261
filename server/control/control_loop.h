// The control plane: one thread that takes everything that happens (clients'
// calls, workers' reports, timers), lets the scheduler decide, and writes rows
// and events in one transaction. Only then does it answer callers, acknowledge
// reports and act.
//
// Clients' calls come through the request handlers (job_requests.h,
// model_requests.h and so on), which share the context of this object.
//
// Thread-safety: every public method may be called from any thread. Reads of
// the handlers (Get*, List*, ReadEvents) see committed data and return at once.
//
// Life cycle:
//   1. Create() reads the store.
//   2. The WorkerPool is made with this object as its observer.
//   3. Start() begins to work.
//   4. Stop() must come before the pool and the serving sink are destroyed.
//
// Numbered invariants
//  1. What a client was told is on disk.
//  2. A worker's report is acknowledged only after its effects are on disk.
//  3. An action is performed only after the decision is on disk.
//  4. When the store fails to commit nothing more is answered or performed;
//     `fatal` is called once and the process must end.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/control/calls/control_options.h"
#include "server/pool/worker_pool.h"

namespace gpupool::server {

class ServingSink;
class WorkerPort;
struct ControlContext;

class ControlLoop : public WorkerObserver {
 public:
  // Reads jobs and versions from the store. Borrowed dependencies must outlive
  // the loop.
  static absl::StatusOr<std::unique_ptr<ControlLoop>> Create(
      ControlOptions options, ControlDependencies dependencies);
  ~ControlLoop() override;  // Stops.

  // Starts the thread. `workers` and `serving` (may be null) must live until
  // Stop() has returned. Call once.
  void Start(WorkerPort* workers, ServingSink* serving);
  // Ends the thread; later calls answer Unavailable. Idempotent.
  void Stop();
  // Returns PoolDevice.last_report_sequence of each device by name.
  uint64_t LastReportSequence(const std::string& device) const;

  // Returns the context for request handlers. They may be called from Create to
  // the end of this object. Before Start and after Stop they answer Unavailable
  // if they need the control thread or a worker.
  const ControlContext& context() const;

  // --------------------------------------------------------- WorkerObserver
  void OnWorkerReady(const std::string& device,
                     const worker::v1::HelloReply& reply) override;
  void OnWorkerLost(const std::string& device, const absl::Status& reason,
                    const WorkOwner& work) override;
  void OnReport(const std::string& device,
                const worker::v1::Report& report) override;
  void OnHeartbeat(const std::string& device,
                   const worker::v1::Heartbeat& heartbeat) override;

 private:
  class Impl;
  explicit ControlLoop(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpupool::server
