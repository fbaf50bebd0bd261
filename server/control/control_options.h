// What the control plane is set to, and what it is given to work with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "scheduler/state/host.h"
#include "scheduler/state/order_policy.h"
#include "scheduler/state/topology.h"

namespace gpupool::server {

class BlobStore;
class Metrics;
class Store;

struct ControlDevice {
  std::string name;  // "cpu:0"; the meta worker is not listed
  uint64_t limit_bytes = 0;
  uint32_t threads = 1;
  // To each device of the list; empty where nobody tells.
  std::vector<scheduler::Link> links = {};
};

struct ControlOptions {
  std::vector<ControlDevice> devices;
  // Where the ranks of jobs on several devices meet; made when it is needed.
  std::string groups_folder;
  // Events that may wait for the control thread. Clients are refused with
  // ResourceExhausted beyond it; workers are made to wait. >= 1.
  size_t queue_limit = 0;
  // Events that share one transaction.
  size_t batch_limit = 512;
  // Jobs that have not ended; more are refused with ResourceExhausted.
  size_t active_job_limit = 100000;
  // Checkpoints kept per job beside those that versions were made from.
  size_t keep_checkpoints = 5;
  scheduler::QueuePolicy scheduling;
  // What the machine has for jobs that say what they need beside devices.
  scheduler::HostNeed host = {};
  // What plans depend on beside the spec: stored plans of another planner are
  // made again. 0: plans are never made again.
  uint64_t planner = 0;
  // How long starts may wait for that.
  absl::Duration plan_hold = absl::Seconds(10);
  absl::Duration plan_timeout = absl::Seconds(30);
  absl::Duration inspect_timeout = absl::Minutes(10);
  absl::Duration load_timeout = absl::Minutes(5);
  absl::Duration export_timeout = absl::Minutes(5);
  absl::Duration memory_timeout = absl::Seconds(5);
  absl::Duration profile_timeout = absl::Minutes(10);
  // Unreferenced blobs older than this are removed.
  absl::Duration sweep_min_age = absl::Hours(1);
  absl::Duration sweep_interval = absl::Minutes(10);
};

struct ControlDependencies {
  Store* store = nullptr;
  BlobStore* blobs = nullptr;
  Metrics* metrics = nullptr;  // may be null
  std::function<absl::Time()> now = absl::Now;
  // The store failed to commit; must not return control to normal work.
  std::function<void(const absl::Status&)> fatal;
};

}  // namespace gpupool::server
