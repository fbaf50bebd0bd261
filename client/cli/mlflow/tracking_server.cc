#include "client/cli/mlflow/tracking_server.h"

#include <httplib.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/mlflow/tracking_answer.h"
#include "client/retry.h"
#include "client/text/units.h"

namespace gpupool::client {
namespace {

// No server that is there takes longer to accept a connection.
constexpr absl::Duration kLongestConnect = absl::Seconds(10);

// Blocks SIGPIPE in this thread while a server may close a connection that is
// written to, which would end the process.
class BlockedPipeSignal {
 public:
  BlockedPipeSignal() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~BlockedPipeSignal() {
    const timespec at_once = {};
    while (!was_pending_ && sigtimedwait(&pipe_, nullptr, &at_once) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  BlockedPipeSignal(const BlockedPipeSignal&) = delete;
  BlockedPipeSignal& operator=(const BlockedPipeSignal&) = delete;

 private:
  sigset_t pipe_;
  sigset_t before_;
  bool was_pending_ = false;
};

std::unique_ptr<httplib::ClientImpl> Connected(
    const TrackingServer::Options& options) {
  const TrackingUrl& url = options.url;
  std::unique_ptr<httplib::ClientImpl> http;
  if (url.tls) {
    http = std::make_unique<httplib::SSLClient>(url.host, url.port);
    http->enable_server_certificate_verification(
        options.credentials.verify_server);
    if (!options.credentials.ca_file.empty()) {
      http->set_ca_cert_path(options.credentials.ca_file);
    }
  } else {
    http = std::make_unique<httplib::ClientImpl>(url.host, url.port);
  }
  http->set_connection_timeout(
      absl::ToChronoMicroseconds(std::min(options.timeout, kLongestConnect)));
  http->set_read_timeout(absl::ToChronoMicroseconds(options.timeout));
  http->set_write_timeout(absl::ToChronoMicroseconds(options.timeout));
  // A path is sent as it is written.
  http->set_url_encode(false);
  return http;
}

}  // namespace

struct TrackingServer::Call {
  const char* method;
  const std::string& name;
  std::string path;
  std::string body;
};

TrackingServer::TrackingServer(Options options)
    : options_(std::move(options)), http_(Connected(options_)) {}

TrackingServer::~TrackingServer() = default;

absl::StatusOr<nlohmann::json> TrackingServer::Get(const std::string& call,
                                                   const std::string& query) {
  return Send({.method = "GET",
               .name = call,
               .path = absl::StrCat(call, query.empty() ? "" : "?", query),
               .body = ""});
}

absl::StatusOr<nlohmann::json> TrackingServer::Post(
    const std::string& call, const nlohmann::json& body) {
  return Send({.method = "POST",
               .name = call,
               .path = call,
               .body = body.dump(-1, ' ', false,
                                 nlohmann::json::error_handler_t::replace)});
}

absl::StatusOr<nlohmann::json> TrackingServer::Send(const Call& call) {
  httplib::Request request;
  request.method = call.method;
  request.path =
      absl::StrCat(options_.url.prefix, "/api/2.0/mlflow/", call.path);
  request.body = call.body;
  request.set_header("Host", options_.url.authority);
  request.set_header("User-Agent", "gpupool");
  if (!call.body.empty()) {
    request.set_header("Content-Type", "application/json");
  }
  if (!options_.credentials.authorization.empty()) {
    request.set_header("Authorization", options_.credentials.authorization);
  }
  std::string body;
  bool too_long = false;
  // The time limits of the library are those of single reads.
  const absl::Time begin = absl::Now();
  request.content_receiver = [&](const char* data, size_t size, uint64_t,
                                 uint64_t) {
    too_long = size > kLongestTrackingAnswer - body.size();
    if (too_long || absl::Now() - begin > options_.timeout) return false;
    body.append(data, size);
    return true;
  };
  const httplib::Result result = [&] {
    const BlockedPipeSignal no_signal;
    return http_->send(request);
  }();
  if (too_long) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the answer of MLflow at ", options_.url.Text(), " to ", call.name,
        " has more than ", FormatBytes(kLongestTrackingAnswer),
        "; check the URL, or name another experiment by --experiment"));
  }
  if (!result) {
    return Explain(static_cast<int>(result.error()), absl::Now() - begin);
  }
  return ReadAnswer({.server = options_.url.Text(),
                     .call = call.name,
                     .http_status = result->status,
                     .location = result->get_header_value("Location"),
                     .body = std::move(body)});
}

absl::Status TrackingServer::Explain(int error, absl::Duration elapsed) const {
  const std::string server =
      absl::StrCat("an MLflow server at ", options_.url.Text());
  switch (static_cast<httplib::Error>(error)) {
    case httplib::Error::SSLLoadingCerts:
      return absl::FailedPreconditionError(absl::StrCat(
          "cannot read the certificates to check ", server,
          " with; name a PEM file by MLFLOW_TRACKING_SERVER_CERT_PATH"));
    case httplib::Error::SSLServerVerification:
      return absl::FailedPreconditionError(
          absl::StrCat("the certificate of ", server,
                       " is not trusted; name the file of its authority by "
                       "MLFLOW_TRACKING_SERVER_CERT_PATH"));
    case httplib::Error::SSLConnection:
      return absl::UnavailableError(
          absl::StrCat("cannot speak TLS with ", server,
                       "; if it speaks plain HTTP, write http:// in its URL"));
    case httplib::Error::Connection:
    case httplib::Error::ConnectionTimeout:
      return absl::UnavailableError(
          absl::StrCat("cannot reach ", server,
                       "; check the URL, and that the server is started and "
                       "no firewall is between"));
    default:
      break;
  }
  if (elapsed >= options_.timeout) {
    return absl::UnavailableError(
        absl::StrCat(server, " did not answer within ",
                     absl::FormatDuration(options_.timeout),
                     "; check its load, or give it more time by --timeout"));
  }
  return absl::UnavailableError(absl::StrCat(
      server,
      " closed the connection without an answer; check that the URL has its "
      "port, and https:// if it speaks TLS"));
}

absl::Status TrackingServer::Retry(absl::Duration window,
                                   const std::function<absl::Status()>& step) {
  const absl::Time begin = absl::Now();
  // The seed differs between commands, which may wait for the same server.
  Backoff backoff({}, static_cast<uint32_t>(absl::ToUnixMicros(begin)));
  while (true) {
    absl::Status status = step();
    if (!IsRetryable(status)) return status;
    const absl::Duration wait = backoff.Next();
    if (absl::Now() + wait > begin + window) return status;
    if (!SleepUnlessStopped(wait, options_.stop)) {
      return absl::CancelledError("stopped");
    }
  }
}

}  // namespace gpupool::client
