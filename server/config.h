// The configuration of the daemon. Every member is filled from a row of the
// table of settings (settings.h), which also has its default.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "scheduler/state/order_policy.h"
#include "scheduler/text/named_words.h"
#include "server/api/rpc/api_limits.h"
#include "server/ipc/slot_ring.h"
#include "server/store/partial_blobs.h"
#include "tls/tls_files.h"

namespace gpupool::server {

struct Config {
  // Sets every setting to its default.
  Config();

  std::string devices;               // see device_list.h
  uint64_t device_memory_bytes = 0;  // per device; 0: see devices.h
  std::string state_dir;
  std::string listen;      // an IP address
  uint16_t grpc_port = 0;  // 0: any free port
  uint16_t http_port = 0;
  std::string http_names;  // separated by commas
  uint16_t metrics_port = 0;
  bool triton_metrics = false;
  tls::TlsFiles tls;   // of gRPC and HTTP
  std::string auth;    // "local", "tokens" or "none"
  std::string socket;  // "auto", "none" or a path; see server_access.h
  std::string audit;   // "on" or "off"
  uint64_t audit_file_bytes = 0;
  uint32_t audit_files = 0;   // kept, with the newest
  std::string shared_memory;  // of clients: "on" or "off"
  std::string port_file;      // empty: no file
  std::string log_level;
  std::string log_format;     // "text" or "json"
  std::string worker_binary;  // empty: gpupool-worker beside this program
  std::string cuda_lib_dir;   // NVIDIA's libraries; empty: the system's
  std::string sandbox;        // of workers: "auto" or "off"
  ApiLimits limits;
  absl::Duration keep_uploads;      // zero: none are kept
  uint32_t upload_files = 0;        // open and kept ones
  uint64_t upload_bytes = 0;        // of these; 0: see PartialOptionsOf
  uint64_t disk_reserve_bytes = 0;  // 0: none
  uint32_t keep_jobs = 0;           // ended jobs; 0: all
  uint32_t keep_job_events = 0;     // ended jobs with events; 0: all
  uint32_t event_queue_size = 0;    // control's bounded queue
  SlotRingOptions ring;             // ring of each worker
  absl::Duration drain_grace;
  absl::Duration hang_timeout;         // zero: never
  absl::Duration checkpoint_interval;  // zero: none by time
  // The policy without the queues and derived values; SchedulingOf has all.
  scheduler::QueuePolicy scheduling;
  std::vector<scheduler::NamedWords> queues;
  absl::Duration serving_target_delay;  // zero: training never gives way
  std::string model_repositories;       // folders, separated by colons
  std::string model_control_mode;       // "none", "poll" or "explicit"
  absl::Duration repository_poll;       // between looks at the folders
  uint64_t response_cache_bytes = 0;    // 0: no response cache
  std::string trace_endpoint;           // URL; empty: no traces
  double trace_sampling = 0;            // share of the requests, 0 .. 1
  std::string trace_service_name;
};

// Returns the whole policy. Queues take what they do not set from the other
// settings.
scheduler::QueuePolicy SchedulingOf(const Config& config);

// Returns the limits of partial uploads. By default their bytes may be four
// times the largest upload.
PartialOptions PartialOptionsOf(const Config& config);

}  // namespace gpupool::server
