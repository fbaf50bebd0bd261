#include "client/connection.h"

#include <limits>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/connection_failure.h"
#include "client/local_socket.h"
#include "client/server_defaults.h"

namespace gpupool::client {
namespace {

std::shared_ptr<grpc::Channel> OpenChannel(
    const std::string& address,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  // The server limits chunks and tensors, so the library's own limit of 4 MiB
  // is lifted.
  arguments.SetMaxReceiveMessageSize(std::numeric_limits<int>::max());
  arguments.SetMaxSendMessageSize(std::numeric_limits<int>::max());
  // gRPC's first reconnection waits a second; a local server restarts faster.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // A proxy in the environment is meant for the web, not for a server in the
  // local network.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Two clients of one process must not share the state of a broken connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(TargetOf(address), credentials, arguments);
}

}  // namespace

absl::StatusOr<std::string> CompleteAddress(absl::string_view address) {
  if (address.empty()) {
    return absl::InvalidArgumentError(
        "the server's address is empty; give it as host:port or unix:PATH");
  }
  if (IsSocketAddress(address)) {
    const absl::Status usable = CheckSocketAddress(address);
    if (!usable.ok()) return usable;
    return std::string(address);
  }
  if (absl::StrContains(address, "://")) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", address,
                     "' is not an address: leave out the scheme and give "
                     "host:port, for example ",
                     DefaultServerAddress()));
  }
  const size_t bracket = address.rfind(']');  // of an IPv6 address
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos ||
      (bracket != absl::string_view::npos && colon < bracket)) {
    return absl::StrCat(address, ":", kDefaultGrpcPort);
  }
  int port = 0;
  if (!absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 1 ||
      port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", address, "' has no valid port: '",
                     address.substr(colon + 1), "' is not in 1..65535"));
  }
  return std::string(address);
}

Connection::Connection(
    const ClientOptions& options,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials)
    : address_(options.address),
      tls_(options.tls),
      authorization_(options.token.token.empty()
                         ? ""
                         : absl::StrCat("Bearer ", options.token.token)),
      call_timeout_(options.call_timeout),
      retry_window_(options.retry_window),
      channel_(OpenChannel(options.address, credentials)) {}

void Connection::AddToken(grpc::ClientContext* context) const {
  if (authorization_.empty()) return;
  context->AddMetadata("authorization", authorization_);
}

Connection::Limits Connection::StartCall(const Patience& patience) const {
  const absl::Duration timeout = patience.timeout > absl::ZeroDuration()
                                     ? patience.timeout
                                     : call_timeout_;
  const absl::Time now = absl::Now();
  const absl::Duration window = patience.repeat == kOnce
                                    ? absl::ZeroDuration()
                                    : std::min(retry_window_, timeout);
  return {timeout, now + timeout, now + window};
}

absl::Status Connection::Explain(const grpc::Status& status,
                                 absl::Duration timeout) {
  if (status.ok()) return absl::OkStatus();
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  if (code == absl::StatusCode::kUnavailable &&
      channel_->GetState(false) != GRPC_CHANNEL_READY) {
    return absl::UnavailableError(
        absl::StrCat("cannot reach a server at ", address_, ": ",
                     ConnectionFailure(tls_, status.error_message())));
  }
  // gRPC has this text for its own deadline. The server's own limits have
  // theirs, and more time here would not help.
  if (code == absl::StatusCode::kDeadlineExceeded &&
      status.error_message() == "Deadline Exceeded") {
    return absl::DeadlineExceededError(absl::StrCat(
        "the server at ", address_, " did not answer within ",
        absl::FormatDuration(timeout), "; allow more time with --timeout"));
  }
  if (code == absl::StatusCode::kUnimplemented) {
    return absl::UnimplementedError(
        absl::StrCat("the server at ", address_, " does not offer this",
                     // gRPC gives no text for requests that it cannot parse.
                     status.error_message().empty()
                         ? ", or a text in the request is no UTF-8"
                         : absl::StrCat(": ", status.error_message())));
  }
  return absl::Status(code, status.error_message());
}

uint32_t Connection::NewSeed() { return std::random_device()(); }

}  // namespace gpupool::client
