// Questions to a worker about its device itself, beside its training and its
// serving: the memory's figures, snapshots, cache, limit, history and dumps.
// One table, device_verbs.cc, has a row for each member of ToWorker that is
// such a question.
//
// Thread-safety: any thread; nothing here waits for the compute thread.
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
