// The daemon's settings: one table serves the configuration file and the
// command line, so that both know the same names. The file is YAML, one level
// of `name: value`; '_' and '-' in names mean the same. Flags win.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "scheduler/state/order_policy.h"

namespace gpupool::server {

struct Config {
  std::string devices = "auto";      // see device_list.h
  uint64_t device_memory_bytes = 0;  // of each device; 0: see devices.h
  std::string state_dir = "gpupool-state";
  std::string listen = "127.0.0.1";  // an IP address
  uint16_t grpc_port = 8001;         // 0: any free port
  uint16_t http_port = 8000;
  uint16_t metrics_port = 8002;
  std::string port_file;  // empty: none is written
  std::string log_level = "info";
  std::string worker_binary;  // empty: gpupool-worker beside this program
  std::string cuda_lib_dir;   // of NVIDIA's libraries; empty: the system's
  uint64_t dataset_limit_bytes = uint64_t{8} << 30;
  uint64_t disk_reserve_bytes = uint64_t{64} << 20;  // 0: none
  uint32_t keep_jobs = 100000;                       // that have ended; 0: all
  uint32_t keep_job_events = 10000;  // of so many of those; 0: of all
  uint64_t message_limit_bytes = uint64_t{64} << 20;  // of one gRPC message
  uint32_t event_queue_size = 4096;                   // control's bounded queue
  uint32_t watch_limit = 1024;  // open WatchJob and WatchDevices streams
  uint32_t slot_count = 64;     // of each worker's ring
  uint64_t slot_bytes = uint64_t{4} << 20;
  absl::Duration drain_grace = absl::Seconds(30);
  absl::Duration hang_timeout = absl::Seconds(60);  // zero: never
  // Where jobs give way a step is short and a start is not.
  scheduler::QueuePolicy scheduling{.min_run = absl::Seconds(30),
                                    .yields_to_serving = true};
  std::string queues;  // scheduler/state/queue_text.h; see SchedulingOf
  // Zero goes with no scheduling.yields_to_serving.
  absl::Duration serving_target_delay = absl::Milliseconds(500);
};

// All of it, the queues with what they leave to the other settings.
scheduler::QueuePolicy SchedulingOf(const Config& config);

struct Setting {
  const char* name;        // as in "grpc-port"
  const char* value_name;  // for the help text
  const char* help;
  absl::Status (*set)(absl::string_view value, Config* config);
};

const std::vector<Setting>& Settings();

// Applies the file to `config`. InvalidArgument names file, line and key.
absl::Status ReadConfigFile(const std::string& path, Config* config);

// "512", "64KiB", "1.5GiB"; bytes without a suffix.
absl::StatusOr<uint64_t> ParseBytes(absl::string_view text);

}  // namespace gpupool::server
