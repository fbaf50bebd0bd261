// The whole worker process around an engine: lease, log, spool, socket, loop.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "server/worker/engine.h"

namespace gpupool::server {

// Exit codes of gpupool-worker.
enum WorkerExit : int {
  kWorkerDone = 0,
  kWorkerFailed = 1,     // see the log
  kWorkerUsage = 2,      // bad flags
  kWorkerLeaseHeld = 3,  // another worker owns the device
  kWorkerNoDevice = 4,   // no module, no driver or no such GPU
  // Codes 10 and 11 are faults of the device; see server/ipc/work_page.h.
};

// Returns the exit code for an engine that cannot be made. Errors that another
// try cannot change have a code of their own.
int ExitWithoutEngine(const absl::Status& status);

// Limit of a worker's threads for computing.
inline constexpr int kMaxWorkerThreads = 1024;

struct WorkerOptions {
  EngineOptions engine;  // RunWorker sets the folders
  std::string state_dir;
  double orphan_seconds = 60;
  double checkpoint_seconds = 0;  // see WorkerLoopOptions::checkpoint_interval
  std::string log_format = "text";  // or "json"
  std::string sandbox = "auto";     // or "off"
  // Whether the worker joins others in jobs on several devices.
  bool joins_groups = false;
};

// Detaches from the terminal and serves until told to stop. Returns the exit
// code. Errors from before the log exists go to standard error, in the form of
// the log's lines if that is JSON. Must be called on the main thread, before
// any other exists.
int RunWorker(WorkerOptions worker, const EngineFactory& make_engine);

}  // namespace gpupool::server
