// An engine whose work is visible from outside: each call is marked on a work
// page while it runs. Errors that only a new process can recover from, and
// readings that make the device suspect, are noted there; the worker then ends.
//
// Thread-safety: as Engine.
#pragma once

#include <memory>

#include "server/ipc/work_page.h"
#include "server/worker/engine.h"

namespace gpupool::server {

// Wraps the engine. `page` must outlive the result.
std::unique_ptr<Engine> WatchEngine(std::unique_ptr<Engine> engine,
                                    WorkPage* page);

}  // namespace gpupool::server
