#include "client/cli/jobs/follow_array.h"

#include "absl/time/clock.h"
#include "client/retry.h"

namespace gpupool::client {
namespace {

constexpr absl::Duration kReconnectWindow = absl::Minutes(2);
constexpr absl::Duration kBetweenTries = absl::Milliseconds(200);

}  // namespace

absl::StatusOr<v1::JobArray> FollowArray(
    Client& client, const v1::JobArray& array, std::stop_token stop,
    const std::function<void(const v1::JobArray&)>& on_change) {
  v1::JobArray last = array;
  v1::GetJobRequest request;
  request.set_id(array.id());
  absl::Time heard = absl::Now();
  while (true) {
    const absl::Status status =
        client.StreamArray(request, stop, [&](const v1::JobArray& now) {
          last = now;
          heard = absl::Now();
          on_change(now);
          return true;
        });
    if (status.ok()) return last;
    if (stop.stop_requested()) return absl::CancelledError("stopped");
    if (!IsRetryable(status) || absl::Now() - heard > kReconnectWindow) {
      return status;
    }
    absl::SleepFor(kBetweenTries);
  }
}

}  // namespace gpupool::client
