// Private to server/control: sends questions of a handler to a worker.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "server/control/calls/callback.h"
#include "server/control/calls/context.h"

namespace gpupool::server {

// A question for one worker.
struct WorkerQuestion {
  std::string device;
  worker::v1::ToWorker message;
  absl::Duration timeout;
};

// Sends the question. `callback` gets the reply on the pool's thread, or an
// error: Unavailable before ControlLoop::Start, otherwise those of
// WorkerPool::Send.
void AskWorker(const ControlContext& context, WorkerQuestion question,
               Callback<worker::v1::FromWorker> callback);

// Sends the question. `then` gets the reply on the pool's thread. Without a
// reply `callback` gets the error.
template <typename T>
void Ask(const ControlContext& context, WorkerQuestion question,
         const Callback<T>& callback,
         std::function<void(const worker::v1::FromWorker&)> then) {
  AskWorker(context, std::move(question),
            [callback, then = std::move(then)](
                const absl::StatusOr<worker::v1::FromWorker>& reply) {
              if (!reply.ok()) return callback(reply.status());
              then(*reply);
            });
}

}  // namespace gpupool::server
