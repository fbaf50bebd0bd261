// Private to server/control: how a handler asks a worker.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "server/control/calls/callback.h"
#include "server/control/calls/context.h"

namespace gpupool::server {

// A question to one worker.
struct WorkerQuestion {
  std::string device;
  worker::v1::ToWorker message;
  absl::Duration timeout;
};

// Sends the question. `callback` gets the reply on the pool's thread, or the
// error: Unavailable before ControlLoop::Start, or as of WorkerPool::Send.
void AskWorker(const ControlContext& context, WorkerQuestion question,
               Callback<worker::v1::FromWorker> callback);

// Sends the question. `then` gets the reply on the pool's thread; `callback`
// is answered with the error when there is none.
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
