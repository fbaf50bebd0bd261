// Gathers the facts of this machine. Questions that may hang or crash run in
// processes of their own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/worker/doctor/facts.h"

namespace gpupool::server {

struct ExamineOptions {
  std::string root = "/";  // prefix of /proc, /sys and /dev
  std::string cuda_lib_dir;
  std::vector<std::string> module_dirs;
  bool gpus = true;       // whether drivers and libraries are asked
  std::string state_dir;  // empty: not examined
  std::string listen = "127.0.0.1";
  std::vector<uint16_t> ports;  // gRPC, HTTP and metrics; empty: none
  uint64_t ring_bytes = 0;
  // Limit for each process. A driver may take seconds for each sleeping GPU.
  absl::Duration limit = absl::Seconds(30);
  // Limit for all of them together.
  absl::Duration total = absl::Seconds(150);
};

// Returns the facts. Call while the process has one thread.
DoctorFacts Examine(const ExamineOptions& options);

}  // namespace gpupool::server
