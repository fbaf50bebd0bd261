// Gathers the facts of this machine: what may hang or crash is asked in
// processes of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/worker/doctor/facts.h"

namespace gpupool::server {

struct ExamineOptions {
  std::string root = "/";  // of /proc, /sys and /dev
  std::string cuda_lib_dir;
  std::vector<std::string> module_dirs;
  bool gpus = true;       // whether drivers and libraries are asked at all
  std::string state_dir;  // empty: not looked at
  std::string listen = "127.0.0.1";
  std::vector<uint16_t> ports;  // gRPC, HTTP and metrics; empty: none
  uint64_t ring_bytes = 0;
  // For each of the processes. A driver may take seconds for each GPU that
  // sleeps.
  absl::Duration limit = absl::Seconds(30);
  // For all of them together.
  absl::Duration total = absl::Seconds(150);
};

// To be called while the process has one thread.
DoctorFacts Examine(const ExamineOptions& options);

}  // namespace gpupool::server
