#include "server/control/devices/admin_requests.h"

#include "gpupool/v1/admin.pb.h"
#include "scheduler/step/event.h"
#include "server/control/calls/context.h"
#include "server/control/calls/enqueue.h"
#include "server/control/calls/work_queue.h"
#include "server/control/devices/device_board.h"
#include "server/control/records/transaction.h"

namespace gpupool::server {

void DrainServer(const ControlContext& context, bool stop,
                 Callback<v1::DrainResponse> callback) {
  const auto work = [stop, callback,
                     board = context.board](Transaction& transaction) {
    transaction.Apply(scheduler::DrainRequested{.stop = stop});
    transaction.MarkPlanChanged();
    transaction.AfterCommit([callback, board] {
      v1::DrainResponse response;
      response.set_running_jobs(static_cast<uint32_t>(board->live_attempts()));
      callback(response);
    });
  };
  if (context.queue->Push(work) == WorkQueue::Result::kClosed) {
    callback(NotRunning());
  }
}

void SetServingLoad(const ControlContext& context, uint64_t version,
                    bool under_load) {
  context.queue->Push([version, under_load](Transaction& transaction) {
    transaction.Apply(scheduler::ServingLoadChanged{
        scheduler::VersionId(version), under_load});
  });
}

}  // namespace gpupool::server
