// Private to ControlLoop: its parts and its thread.
//
// Threads: `ledger_`, `waiters_`, `timers_`, `job_traces_` and `runner_` belong
// to the control thread once it runs. Everything else is safe from any thread,
// or set before the thread starts.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/container/btree_set.h"
#include "server/control/action_runner.h"
#include "server/control/calls/context.h"
#include "server/control/calls/work_queue.h"
#include "server/control/control_loop.h"
#include "server/control/devices/device_board.h"
#include "server/control/jobs/event_streams.h"
#include "server/control/jobs/forecaster.h"
#include "server/control/jobs/job_rehearsals.h"
#include "server/control/jobs/job_traces.h"
#include "server/control/jobs/plan_cache.h"
#include "server/control/jobs/plan_renewal.h"
#include "server/control/jobs/rehearsals.h"
#include "server/control/models/version_waiters.h"
#include "server/control/records/ledger.h"
#include "server/control/records/shared_versions.h"
#include "server/control/upkeep/blob_janitor.h"
#include "server/control/upkeep/clock_watch.h"
#include "server/control/upkeep/group_folders.h"
#include "server/control/upkeep/retention.h"
#include "server/control/upkeep/usage_meter.h"

namespace gpupool::server {

class QueueMetrics;
class Transaction;

class ControlLoop::Impl {
 public:
  Impl(ControlOptions options, ControlDependencies dependencies);

  absl::Status Recover();
  void Start(WorkerPort* workers, ServingSink* serving);
  void Stop();

  // Called on the pool's thread.
  void WorkerIsReady(const std::string& device,
                     const worker::v1::HelloReply& reply);
  void WorkerIsLost(const std::string& device, const absl::Status& reason,
                    const WorkOwner& work);
  void TakeReport(const std::string& device, const worker::v1::Report& report);
  void TakeHeartbeat(const std::string& device,
                     const worker::v1::Heartbeat& heartbeat);

  const ControlContext& context() const { return context_; }
  uint64_t LastReportSequence(const std::string& device) const;

 private:
  void Run();
  // Runs one turn. Returns false when the store failed: the thread must end.
  bool RunOnce();
  // Returns true when the turn is on disk.
  bool Commit(Transaction& transaction);
  void FireTimers(Transaction& transaction);
  absl::Time NextDeadline() const;
  void AfterCommit(Transaction& transaction);
  void Count(Transaction& transaction);
  void TellOfQueues() const;
  void TellOfJobs(Transaction& transaction) const;
  void Resolve(const std::string& device, const Disagreement& disagreement);

  const ControlOptions options_;
  const ControlDependencies dependencies_;
  WorkQueue queue_;
  DeviceBoard board_;
  EventStreams streams_;
  VersionWaiters waiters_;
  GroupFolders groups_;
  PlanCache plans_;
  Forecaster forecaster_;
  Rehearsals rehearsals_;
  SharedVersions shared_versions_;
  std::atomic<int> plan_searches_ = 0;
  ControlContext context_;
  Ledger ledger_;
  BlobJanitor janitor_;
  PlanRenewal renewal_;
  JobRehearsals job_rehearsals_;
  JobTraces job_traces_;
  Retention retention_;
  UsageMeter usage_;
  ClockWatch clock_watch_;
  std::unique_ptr<ActionRunner> runner_;
  ServingSink* serving_ = nullptr;
  absl::btree_set<absl::Time> timers_;
  std::map<std::string, uint64_t> recovered_sequences_;
  bool reasons_owed_ = false;  // for a later turn
  std::thread thread_;
};

}  // namespace gpupool::server
