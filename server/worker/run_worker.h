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
  // 10, 11: a fault of the device; see server/ipc/work_page.h
};

// What trying again cannot change has a code of its own.
int ExitWithoutEngine(const absl::Status& status);

struct WorkerOptions {
  EngineOptions engine;  // blob_dir is set by RunWorker
  std::string state_dir;
  double orphan_seconds = 60;
};

// Detaches from the terminal and serves until told to stop. Returns the exit
// code; what went wrong before there was a log is on standard error. To be
// called on the main thread, before any other exists.
int RunWorker(WorkerOptions worker, const EngineFactory& make_engine);

}  // namespace gpupool::server
