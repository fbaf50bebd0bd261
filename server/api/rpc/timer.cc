#include "server/api/rpc/timer.h"

#include <grpcpp/alarm.h>

#include <utility>

#include "absl/time/clock.h"

namespace gpupool::server {

void RunAfter(absl::Duration delay, std::function<void()> function) {
  // Deleted by its own callback, which gRPC allows: the implementation lives
  // until the callback has returned.
  auto* alarm = new grpc::Alarm();
  alarm->Set(absl::ToChronoTime(absl::Now() + delay),
             [alarm, function = std::move(function)](bool) {
               function();
               delete alarm;
             });
}

}  // namespace gpupool::server
