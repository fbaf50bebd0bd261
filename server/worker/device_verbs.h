// Answers questions about the worker's device itself, independent of its
// training and serving: the memory's figures, snapshots, cache, limit, history
// and dumps. One table, device_verbs.cc, has a row for each such member of
// ToWorker.
//
// Thread-safety: any thread. Nothing here waits for the compute thread.
#pragma once

#include <optional>

#include "absl/status/statusor.h"

namespace gpupool::engine {
class Session;
}  // namespace gpupool::engine
namespace gpupool::worker::v1 {
class FromWorker;
class ToWorker;
}  // namespace gpupool::worker::v1

namespace gpupool::server {

// Answers a question about the device. Returns nothing for any other request.
std::optional<absl::StatusOr<worker::v1::FromWorker>> AnswerDeviceVerb(
    engine::Session& session, const worker::v1::ToWorker& request);

}  // namespace gpupool::server
