// Looks at the machine once, beside the start of the daemon, and logs what
// `gpupool-worker doctor` warns about: the daemon loads no driver, and waits
// for none that hangs.
//
// Thread-safety: made and destroyed on one thread; the check has its own.
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
  // Whether devices may be, and must be, GPUs.
  bool may_use_gpus = false;
  bool needs_gpus = false;
  // Longer than the worker gives its own questions.
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
  // Ends a check that is not done.
  ~StartupCheck();
  StartupCheck(const StartupCheck&) = delete;
  StartupCheck& operator=(const StartupCheck&) = delete;

 private:
  void Run(const StartupCheckOptions& options);

  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

// The warnings and failures of what `gpupool-worker doctor` printed; none when
// that is nonsense.
std::vector<MachineFinding> ParseFindings(absl::string_view output);

}  // namespace gpupool::server
