#include "server/http/rest_calls.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/http/http_status.h"
#include "server/http/request_body.h"
#include "server/http/trace_headers.h"

namespace gpupool::server {

RestCalls::RestCalls(const RestOptions& options,
                     std::shared_ptr<grpc::Channel> channel)
    : options_(options),
      channel_(std::move(channel)),
      stub_(inference::GRPCInferenceService::NewStub(channel_)),
      open_("POSTs of /v2", options.most_calls) {}

std::string RestCalls::PathOf(absl::string_view method) {
  return absl::StrCat("/inference.GRPCInferenceService/", method);
}

std::optional<HttpResponse> RestCalls::Refuse(
    const HttpRequest& request) const {
  const absl::Status origin = CheckOrigin(
      request.Header("Origin"), request.Header("Host"), options_.trusted);
  if (!origin.ok()) return ErrorAnswer(origin);
  const auto timeout = TimeoutOf(request);
  if (!timeout.ok()) return ErrorAnswer(timeout.status());
  const absl::Status encoding = CheckEncoding(request);
  if (!encoding.ok()) return ErrorAnswer(encoding, 415);
  const absl::Status room = open_.CheckRoom();
  if (!room.ok()) return ErrorAnswer(room);
  return std::nullopt;
}

absl::StatusOr<absl::Duration> RestCalls::TimeoutOf(
    const HttpRequest& request) const {
  return TimeLimitOf(request, {options_.post_timeout, kLongestCall});
}

absl::StatusOr<OpenPost> RestCalls::Open(HttpRequest& request) {
  const auto timeout = TimeoutOf(request);
  if (!timeout.ok()) return timeout.status();
  auto call = open_.Open(channel_, absl::Now() + *timeout);
  if (!call.ok()) return call.status();
  PassTraceContext(request, call->get());
  PassCaller(request, call->get());
  auto body = TakeBody(request, options_.most_body_bytes);
  if (!body.ok()) return body.status();
  GenericCall& opened = **call;
  return OpenPost{*std::move(call), *std::move(body),
                  std::make_unique<OnClientLoss>(
                      request.client, [&opened] { opened.Cancel(); })};
}

absl::Status RestCalls::Ask(GenericCall& call, absl::string_view method,
                            std::string request) {
  call.StartUnary(PathOf(method), std::move(request));
  call.Next(absl::InfiniteFuture());
  return open_.StatusOf(call);
}

}  // namespace gpupool::server
