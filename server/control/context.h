// Private to server/control: what the request handlers share. Every handler
// may be called from any thread; what touches the ledger goes through the
// queue and runs on the control thread.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/control/control_loop.h"
#include "server/control/device_board.h"
#include "server/control/forecaster.h"
#include "server/control/group_folders.h"
#include "server/control/plan_cache.h"
#include "server/control/transaction.h"
#include "server/control/version_waiters.h"
#include "server/control/work_queue.h"

namespace gpupool::server {

struct ControlContext {
  const ControlOptions& options;
  Store* store;
  BlobStore* blobs;
  WorkQueue* queue;
  DeviceBoard* board;
  VersionWaiters* waiters;  // control thread only
  GroupFolders* groups;     // control thread only
  PlanCache* plans;
  Forecaster* forecaster;
  WorkerPort* workers = nullptr;  // set by Start
  std::function<void()> want_sweep = [] {};
};

inline absl::Status NotRunning() {
  return absl::UnavailableError(
      "the server is starting or stopping; try again");
}

// Queues the work of a client, or refuses: then `callback` has been answered.
template <typename T>
void Enqueue(const ControlContext& context,
             const ControlLoop::Callback<T>& callback, Work work) {
  switch (context.queue->TryPush(std::move(work))) {
    case WorkQueue::Result::kTaken:
      return;
    case WorkQueue::Result::kFull:
      callback(absl::ResourceExhaustedError(
          absl::StrCat("the server's queue is full (", context.queue->limit(),
                       " requests wait); try again later")));
      return;
    case WorkQueue::Result::kClosed:
      callback(NotRunning());
  }
}

// Sends to a worker; `then` gets its reply on the pool's thread. `callback` is
// answered here with the error when there is none.
template <typename T>
void Ask(const ControlContext& context, const std::string& device,
         worker::v1::ToWorker message, absl::Duration timeout,
         const ControlLoop::Callback<T>& callback,
         std::function<void(const worker::v1::FromWorker&)> then) {
  if (context.workers == nullptr) return callback(NotRunning());
  context.workers->Send(
      device, std::move(message), timeout,
      [callback, then = std::move(then)](
          const absl::StatusOr<worker::v1::FromWorker>& reply) {
        if (!reply.ok()) return callback(reply.status());
        then(*reply);
      });
}

}  // namespace gpupool::server
