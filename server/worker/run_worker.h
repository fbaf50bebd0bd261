// The whole worker process around an engine: command line, lease, log, spool,
// socket, loop. worker_main.cc calls it with the real engine, tests with a
// stand-in.
#pragma once

#include "server/worker/engine.h"

namespace gpupool::server {

// Exit codes of gpupool-worker.
enum WorkerExit : int {
  kWorkerDone = 0,
  kWorkerFailed = 1,     // see the log
  kWorkerUsage = 2,      // bad flags, or a device this build cannot drive
  kWorkerLeaseHeld = 3,  // another worker owns the device
};

// Returns the exit code.
int RunWorker(int argc, char** argv, const EngineFactory& make_engine);

}  // namespace gpupool::server
