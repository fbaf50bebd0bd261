#include "server/control/calls/enqueue.h"

#include "absl/strings/str_cat.h"

namespace gpupool::server {

absl::Status NotRunning() {
  return absl::UnavailableError(
      "the server is starting or stopping; try again");
}

absl::Status TryEnqueue(const ControlContext& context, Work work) {
  switch (context.queue->TryPush(std::move(work))) {
    case WorkQueue::Result::kTaken:
      return absl::OkStatus();
    case WorkQueue::Result::kFull:
      return absl::ResourceExhaustedError(
          absl::StrCat("the server's queue is full (", context.queue->limit(),
                       " requests wait); try again later"));
    case WorkQueue::Result::kClosed:
      break;
  }
  return NotRunning();
}

}  // namespace gpupool::server
