// Asks a worker process which GPUs workers can open, since the daemon loads no
// driver.
//
// Thread-safety: any thread; blocks until the process has answered.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/devices.h"

namespace gpupool::server {

// Time that a worker has to list the GPUs.
inline constexpr absl::Duration kGpuListLimit = absl::Seconds(60);

// Returns at least one GPU, by index. Errors:
//   * FAILED_PRECONDITION: there is none, in the worker's words
//   * UNAVAILABLE: the worker cannot be started, or its answer does not parse
//   * DEADLINE_EXCEEDED: it does not answer in `timeout`
//   * CANCELLED: `give_up`, which is polled several times a second, was true
absl::StatusOr<std::vector<UsableGpu>> AskForGpus(
    const std::string& worker_binary, const std::string& cuda_lib_dir,
    absl::Duration timeout = kGpuListLimit,
    const std::function<bool()>& give_up = nullptr);

// Parses the output of `gpupool-worker devices`. UNAVAILABLE when that fails.
absl::StatusOr<std::vector<UsableGpu>> ParseGpus(absl::string_view output);

}  // namespace gpupool::server
