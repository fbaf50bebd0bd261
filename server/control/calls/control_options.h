// The settings of the control plane, and its dependencies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gpupool/v1/model.pb.h"
#include "scheduler/state/host.h"
#include "scheduler/state/order_policy.h"
#include "scheduler/state/topology.h"

namespace gpupool::server {

class BlobStore;
class Metrics;
class Store;
class Tracer;

struct ControlDevice {
  std::string name;  // "cpu:0"; without the meta worker
  uint64_t limit_bytes = 0;
  uint32_t threads = 1;
  // Links to each device of the list; empty when unknown.
  std::vector<scheduler::Link> links = {};
};

struct ControlOptions {
  std::vector<ControlDevice> devices;
  // Folder in which the ranks of a job on several devices meet. Made on demand.
  std::string groups_folder;
  // Folder of the daemon, with the spools of the workers. Empty: no spools.
  std::string state_dir = {};
  // Maximum number of events that wait for the control thread, >= 1. Beyond it
  // clients are refused with ResourceExhausted, and workers must wait.
  size_t queue_limit = 0;
  // Maximum number of events that share one transaction.
  size_t batch_limit = 512;
  // Maximum number of jobs that have not ended. Beyond it submissions are
  // refused with ResourceExhausted.
  size_t active_job_limit = 100000;
  // Number of newest checkpoints kept per job, besides those that versions were
  // made from.
  size_t keep_checkpoints = 5;
  // Number of kinds of jobs whose rehearsals are remembered. 0: no job is
  // rehearsed.
  size_t remembered_rehearsals = 4096;
  // Whether callers have tokens, so that the model of a job belongs to the
  // job's tenant.
  bool keeps_tenants_apart = false;
  scheduler::QueuePolicy scheduling;
  // Host capacity for jobs that say what they need of the host.
  scheduler::HostNeed host = {};
  // Fingerprint of everything that plans depend on besides the spec. Stored
  // plans with another one are made again; 0: never.
  uint64_t planner = 0;
  // Limit of the time for which starts wait for new plans.
  absl::Duration plan_hold = absl::Seconds(10);
  absl::Duration plan_timeout = absl::Seconds(30);
  absl::Duration inspect_timeout = absl::Minutes(10);
  absl::Duration load_timeout = absl::Minutes(5);
  absl::Duration export_timeout = absl::Minutes(5);
  absl::Duration memory_timeout = absl::Seconds(5);
  absl::Duration profile_timeout = absl::Minutes(10);
  // Limit of the time of a device's measurements, which wait for other work.
  absl::Duration bench_timeout = absl::Minutes(5);
  // Returns whether requests for the version can be carried. Asked before an
  // uploaded version is admitted.
  std::function<absl::Status(const v1::ModelVersion&)> check_servable =
      [](const v1::ModelVersion&) { return absl::OkStatus(); };
  // Minimum age of unreferenced blobs that are removed.
  absl::Duration sweep_min_age = absl::Hours(1);
  absl::Duration sweep_interval = absl::Minutes(10);
};

struct ControlDependencies {
  Store* store = nullptr;
  BlobStore* blobs = nullptr;
  Metrics* metrics = nullptr;  // may be null
  Tracer* tracer = nullptr;    // null: nothing is traced
  std::function<absl::Time()> now = absl::Now;
  // Called when the store fails to commit. Must not return control to normal
  // work.
  std::function<void(const absl::Status&)> fatal;
};

}  // namespace gpupool::server
