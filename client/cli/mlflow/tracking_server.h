// Calls of MLflow's REST API 2.0 over HTTP or HTTPS. Each call is a connection
// of its own.
//
// Thread-safety: one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/mlflow/tracking_credentials.h"
#include "client/cli/mlflow/tracking_url.h"

namespace httplib {
class ClientImpl;
}  // namespace httplib

namespace gpupool::client {

// The longest answer of a call.
inline constexpr size_t kLongestTrackingAnswer = size_t{32} << 20;

class TrackingServer {
 public:
  struct Options {
    TrackingUrl url;
    TrackingCredentials credentials;
    absl::Duration timeout = absl::Seconds(30);  // of a call
    std::stop_token stop;                        // ends waits between tries
  };

  explicit TrackingServer(Options options);
  ~TrackingServer();
  TrackingServer(const TrackingServer&) = delete;
  TrackingServer& operator=(const TrackingServer&) = delete;

  const TrackingUrl& url() const { return options_.url; }

  // Makes one call, for example "runs/create", without a retry. `query` is
  // "key=value", percent encoded. Besides the errors of ReadAnswer:
  //   Unavailable         no connection, or no answer in time
  //   FailedPrecondition  the server's certificate is not trusted
  //   ResourceExhausted   an answer of more than kLongestTrackingAnswer
  absl::StatusOr<nlohmann::json> Get(const std::string& call,
                                     const std::string& query);
  absl::StatusOr<nlohmann::json> Post(const std::string& call,
                                      const nlohmann::json& body);

  // Repeats `step` with growing waits while it returns Unavailable and no wait
  // would end after `window`. Returns the last status of the step, or Cancelled
  // once the stop was requested. The step must do no harm when it is repeated.
  absl::Status Retry(absl::Duration window,
                     const std::function<absl::Status()>& step);

 private:
  struct Call;
  absl::StatusOr<nlohmann::json> Send(const Call& call);
  absl::Status Explain(int error, absl::Duration elapsed) const;

  const Options options_;
  const std::unique_ptr<httplib::ClientImpl> http_;
};

}  // namespace gpupool::client
