#include "server/control/calls/ask_worker.h"

#include "server/control/calls/enqueue.h"
#include "server/pool/worker_port.h"

namespace gpupool::server {

void AskWorker(const ControlContext& context, WorkerQuestion question,
               Callback<worker::v1::FromWorker> callback) {
  if (context.workers == nullptr) return callback(NotRunning());
  context.workers->Send(question.device, std::move(question.message),
                        question.timeout, std::move(callback));
}

}  // namespace gpupool::server
