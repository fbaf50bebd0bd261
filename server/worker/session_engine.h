// The real engine behind the worker: engine::Session.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "server/worker/engine.h"

namespace gpupool::server {

// Makes the engine. Unimplemented for devices that this build cannot drive.
absl::StatusOr<std::unique_ptr<Engine>> MakeSessionEngine(
    const EngineOptions& options);

}  // namespace gpupool::server
