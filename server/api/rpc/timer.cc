#include "server/api/rpc/timer.h"

#include <grpcpp/alarm.h>

#include <utility>

#include "absl/time/clock.h"

namespace gpupool::server {

void RunAfter(absl::Duration delay, std::function<void()> function) {
  // The alarm deletes itself; its implementation outlives its own callback.
  auto* alarm = new grpc::Alarm();
  alarm->Set(absl::ToChronoTime(absl::Now() + delay),
             [alarm, function = std::move(function)](bool) {
               function();
               delete alarm;
             });
}

}  // namespace gpupool::server
