// An engine whose work can be seen from outside: each call is marked on a work
// page while it runs, and an error that only a new process can get over, or
// readings that make the device suspect, are noted there, whereupon the worker
// ends. It is also where faults happen that tests ask for (injected_fault.h).
//
// Threads: as Engine.
#pragma once

#include <memory>

#include "server/ipc/work_page.h"
#include "server/worker/engine.h"

namespace gpupool::server {

// `page` must outlive the result.
std::unique_ptr<Engine> WatchEngine(std::unique_ptr<Engine> engine,
                                    WorkPage* page);

}  // namespace gpupool::server
