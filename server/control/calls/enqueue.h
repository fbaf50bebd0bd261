// Private to server/control: passes work of a handler to the control thread.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "server/control/calls/callback.h"
#include "server/control/calls/context.h"
#include "server/control/calls/work_queue.h"

namespace gpupool::server {

// Returns Unavailable, for when the control thread does not run.
absl::Status NotRunning();

// Queues the work of a client. Returns the reason when it is refused:
// ResourceExhausted when the queue is full, Unavailable when it is closed.
absl::Status TryEnqueue(const ControlContext& context, Work work);

// Queues the work of a client, or answers `callback` with the refusal.
template <typename T>
void Enqueue(const ControlContext& context, const Callback<T>& callback,
             Work work) {
  const absl::Status queued = TryEnqueue(context, std::move(work));
  if (!queued.ok()) callback(queued);
}

}  // namespace gpupool::server
