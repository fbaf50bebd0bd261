// The present knowledge about devices, for readers on any thread: the
// placements of the control thread, the heartbeats of workers, and whether the
// two agree.
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "gpupool/v1/device.pb.h"
#include "scheduler/state/order_policy.h"
#include "scheduler/state/queues.h"
#include "scheduler/state/types.h"

namespace gpupool::v1 {
class DeviceFit;
class JobSpec;
class ReconcileState;
class SchedulingPolicy;
}  // namespace gpupool::v1
namespace gpupool::worker::v1 {
class Heartbeat;
class HelloReply;
}  // namespace gpupool::worker::v1
namespace gpupool::scheduler {
struct Device;
}  // namespace gpupool::scheduler

namespace gpupool::server {

class Ledger;

// An attempt on which control and worker have disagreed for a while.
struct Disagreement {
  scheduler::AttemptRef attempt;
  bool on_worker = false;  // runs but should not; else the opposite
};

// Energy of a device, from its reported power, and the time of that.
struct Energy {
  double joules = 0;
  double seconds = 0;
};

class DeviceBoard {
 public:
  // Time for which both may differ, since a start or an end may be on its way.
  static constexpr absl::Duration kPatience = absl::Seconds(5);

  void AddDevice(const std::string& name, uint64_t limit_bytes,
                 uint32_t threads);

  void SetReady(const std::string& name, const worker::v1::HelloReply& reply);
  // Shows the rates of the measurements, while the device has the processor or
  // GPU and the threads with which they were made. Measurements beside other
  // work are too slow to plan with and change nothing.
  void SetMeasured(const v1::DeviceBench& bench);
  // Marks the device as lost. DATA_LOSS means quarantine.
  void SetLost(const std::string& name, const absl::Status& reason);
  // Publishes the placements and the waiting reasons of `ledger`. With
  // `more_follows` the reasons of a long queue are left for a later turn, for
  // at most kReasonsAge. Returns false when they were left.
  static constexpr absl::Duration kReasonsAge = absl::Milliseconds(100);
  bool Publish(const Ledger& ledger, bool more_follows, absl::Time now);
  // Takes a heartbeat. Returns the disagreements that must be resolved, each
  // once.
  std::vector<Disagreement> TakeHeartbeat(
      const std::string& name, const worker::v1::Heartbeat& heartbeat,
      absl::Time now);

  // Returns the energy that was used since the last call, and resets it.
  Energy TakeEnergy(const std::string& name);

  bool Has(const std::string& name) const;
  // Returns an empty message when the device is unknown.
  v1::Device Find(const std::string& name) const;
  std::vector<v1::Device> List() const;
  // Returns for every device whether a job of this spec may run there now, or
  // ever, with `bytes` on each of its devices. Checks the devices that the job
  // wants and those that its queue and its tenant may use.
  std::vector<v1::DeviceFit> Fits(uint64_t bytes,
                                  const v1::JobSpec& spec) const;
  v1::ReconcileState Reconcile() const;
  uint64_t mismatches_total() const;
  // Returns "" when the job is not known to wait.
  std::string WaitingReason(uint64_t job) const;
  // Returns "" unless the job is live and its checkpoint is being written.
  std::string SavingReason(uint64_t job) const;
  v1::SchedulingPolicy Scheduling() const;
  bool draining() const;
  size_t live_attempts() const;
  // Returns false when `timeout` passed first.
  bool WaitUntilIdle(absl::Duration timeout) const;

 private:
  struct Entry {
    v1::Device device;
    uint64_t usable_bytes = 0;  // usable part of its limit
    // Time since when control and worker disagree on the attempt;
    // InfiniteFuture: they agree; InfinitePast: that was reported.
    using Attempts = std::map<scheduler::AttemptRef, absl::Time>;
    Attempts expected;
    Attempts stopping;  // should not run, and were told to stop
    Attempts running;
    // Rates of the last measurements, and what was measured.
    std::optional<v1::PeakRates> measured_rates;
    std::string measured_on;  // the description
    uint32_t measured_threads = 0;
    Energy energy;
    double joules_total = 0;  // since the start
    absl::Time power_told = absl::InfinitePast();
  };
  static void ShowMeasured(Entry& entry);
  // Adds the energy since the last reading, and shows the total.
  static void MeterPower(double watts, absl::Time now, Entry& entry);
  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return live_attempts_ == 0;
  }
  bool ReasonsAreYoung(absl::Time now) const;
  static void PublishDevice(const Ledger& ledger,
                            const scheduler::Device& device, Entry& entry);
  static void CollectAbsent(Entry::Attempts& attempts, const Entry& entry,
                            absl::Time now, std::vector<Disagreement>& found);
  static void CollectUnseen(Entry& entry, absl::Time now,
                            std::vector<Disagreement>& found);

  mutable absl::Mutex mutex_;
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  absl::btree_map<scheduler::JobId, std::string> reasons_
      ABSL_GUARDED_BY(mutex_);
  absl::btree_map<scheduler::JobId, std::string> saving_
      ABSL_GUARDED_BY(mutex_);
  absl::Time reasons_made_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  uint64_t mismatches_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t live_attempts_ ABSL_GUARDED_BY(mutex_) = 0;
  scheduler::QueuePolicy policy_ ABSL_GUARDED_BY(mutex_);
  scheduler::Queues queues_ ABSL_GUARDED_BY(mutex_);
  absl::Duration restart_cost_ ABSL_GUARDED_BY(mutex_);
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace gpupool::server
