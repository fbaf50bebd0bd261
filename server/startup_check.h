// Checks the machine once during the daemon's start, and logs the warnings of
// `gpupool-worker doctor`. The daemon itself loads no driver, and does not wait
// for one that hangs.
//
// Thread-safety: create and destroy on one thread; the check has its own.
#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace gpupool::server {

struct StartupCheckOptions {
  std::string worker_binary;
  std::string cuda_lib_dir;
  std::string state_dir;
  uint64_t ring_bytes = 0;
  // Whether devices may be GPUs, and whether they must be.
  bool may_use_gpus = false;
  bool needs_gpus = false;
  // Limit for the check. Longer than the limits of the worker's own questions.
  absl::Duration timeout = absl::Seconds(180);
};

struct MachineFinding {
  std::string id;        // "driver.too_old"
  std::string severity;  // "warn" or "fail"
  std::string text;
  std::string remedy;
};

class StartupCheck {
 public:
  // Starts the check; returns at once.
  explicit StartupCheck(StartupCheckOptions options);
  // Ends a check that still runs.
  ~StartupCheck();
  StartupCheck(const StartupCheck&) = delete;
  StartupCheck& operator=(const StartupCheck&) = delete;

 private:
  void Run(const StartupCheckOptions& options);

  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

// Returns the warnings and failures in the output of `gpupool-worker doctor`;
// none when it does not parse.
std::vector<MachineFinding> ParseFindings(absl::string_view output);

}  // namespace gpupool::server
