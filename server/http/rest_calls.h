// Private to server/http: the rpcs that requests of /v2 become. A POST counts
// as open until its call ends, and only so many may be open.
//
// Thread-safety: any thread. Ownership: must outlive its calls.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "inference/grpc_service.grpc.pb.h"
#include "server/http/open_calls.h"
#include "server/http/port/client_presence.h"
#include "server/http/port/http_request.h"
#include "server/http/port/http_response.h"
#include "server/http/rest_routes.h"
#include "server/http/route_access.h"

namespace gpupool::server {

// A POST whose call counts as open.
struct OpenPost {
  std::shared_ptr<GenericCall> call;
  std::string body;
  std::unique_ptr<OnClientLoss> loss;  // cancels the call
};

class RestCalls {
 public:
  using Stub = inference::GRPCInferenceService::Stub;

  RestCalls(const RestOptions& options, std::shared_ptr<grpc::Channel> channel);

  // Returns the path of an rpc of the inference service.
  static std::string PathOf(absl::string_view method);

  // Asks by an rpc that takes no time. `caller` is the request that it is for,
  // since answers depend on who asks.
  template <typename Method, typename Question, typename Answer>
  absl::Status AskNow(Method method, const Question& question,
                      const HttpRequest& caller, Answer* answer) {
    grpc::ClientContext context;
    PassCaller(caller, &context);
    context.set_deadline(
        absl::ToChronoTime(absl::Now() + options_.get_timeout));
    const grpc::Status status =
        (stub_.get()->*method)(&context, question, answer);
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                        status.error_message());
  }

  // Returns the answer for a POST that is wrong whatever its body is, or comes
  // when the most are open.
  std::optional<HttpResponse> Refuse(const HttpRequest& request) const;

  // Opens a call for a POST that was not refused, and takes its body. Errors
  // are those of the time limit, of OpenCalls::Open and of TakeBody.
  absl::StatusOr<OpenPost> Open(HttpRequest& request);

  // Sends the request and waits for the end of the rpc.
  absl::Status Ask(GenericCall& call, absl::string_view method,
                   std::string request);

  OpenCalls& open() { return open_; }

 private:
  absl::StatusOr<absl::Duration> TimeoutOf(const HttpRequest& request) const;

  const RestOptions options_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<Stub> stub_;
  OpenCalls open_;
};

}  // namespace gpupool::server
