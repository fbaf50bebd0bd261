// Handles requests of operators to the server as a whole.
//
// Thread-safety: any thread; see context.h.
#pragma once

#include <cstdint>

#include "server/control/calls/callback.h"

namespace gpupool::v1 {
class DrainResponse;
}  // namespace gpupool::v1

namespace gpupool::server {

struct ControlContext;

// Lets no further job in, and answers with the number of running ones. With
// `stop`, running attempts checkpoint and stop. Blocks while the queue is full.
void DrainServer(const ControlContext& context, bool stop,
                 Callback<v1::DrainResponse> callback);

// Tells the scheduler whether requests to the version wait for too long. Blocks
// while the queue is full.
void SetServingLoad(const ControlContext& context, uint64_t version,
                    bool under_load);

}  // namespace gpupool::server
