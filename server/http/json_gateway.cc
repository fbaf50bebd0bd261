#include "server/http/json_gateway.h"

#include <google/protobuf/descriptor.h>
#include <grpcpp/grpcpp.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "server/http/http_status.h"
#include "server/http/json_messages.h"
#include "server/http/json_stream.h"
#include "server/http/method_index.h"
#include "server/http/open_calls.h"
#include "server/http/port/body_budget.h"
#include "server/http/port/client_presence.h"
#include "server/http/request_body.h"
#include "server/http/request_check.h"
#include "server/http/route_access.h"
#include "server/http/trace_headers.h"

namespace gpupool::server {
namespace {

using google::protobuf::MethodDescriptor;

// Tells as much as the list of methods.
constexpr char kReflection[] =
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

// A method, and a request that has passed the checks.
struct CheckedCall {
  const MethodDescriptor* method = nullptr;
  std::string path;     // of gRPC
  std::string request;  // in wire format
  absl::Time deadline;
};

HttpResponse Answered(int status, std::string json) {
  HttpResponse response = JsonAnswer(status, std::move(json));
  response.Set("Cache-Control", "no-store");
  response.Set("X-Content-Type-Options", "nosniff");
  return response;
}

// Answers with the status of the code, or with another HTTP status.
HttpResponse Refused(const absl::Status& error, int status = 0) {
  return Answered(status != 0 ? status : HttpStatusOf(error.code()),
                  StatusJson(error.code(), error.message()));
}

absl::Status NoSuchPath(const HttpRequest& request) {
  return absl::NotFoundError(absl::StrCat(
      "there is no ", request.method, " ", request.path.substr(0, 80),
      "; POST /api/SERVICE/METHOD calls a method, GET /api lists them"));
}

}  // namespace

class JsonGateway::Impl {
 public:
  Impl(const JsonGatewayOptions& options,
       std::shared_ptr<grpc::Channel> channel)
      : options_(options),
        channel_(std::move(channel)),
        list_(index_.ToJson()),
        calls_("calls", options.most_calls),
        streams_("streams", options.most_streams),
        bodies_((options.most_calls + options.most_streams) *
                options.most_body_bytes) {}

  void AddRoutes(HttpRouter* router) {
    for (const char* path : {"/api", "/api/"}) {
      router->Add(
          {.method = "GET",
           .pattern = path,
           .calls = kReflection,
           .answer = [this](HttpRequest&) { return Answered(200, list_); }});
    }
    for (const char* path : {"/api", "/api/", "/api/**"}) {
      router->Add(
          {.method = "POST",
           .pattern = path,
           .calls = kPathBehindApi,
           .lane = Lane::kApi,
           .most_body_bytes = options_.most_body_bytes,
           .bodies = &bodies_,
           .refuse =
               [this](const HttpRequest& request) { return Refuse(request); },
           .answer = [this](HttpRequest& request) { return Answer(request); },
           .error = Refused});
    }
  }

  void Close(absl::Time end) {
    // Streams end only when their calls do.
    streams_.CancelAll();
    calls_.Close(end);
    streams_.Close(end);
  }

 private:
  // Returns the answer for a request that is wrong whatever its body is.
  std::optional<HttpResponse> Refuse(const HttpRequest& request) const {
    const absl::Status origin = CheckOrigin(
        request.Header("Origin"), request.Header("Host"), options_.trusted);
    if (!origin.ok()) return Refused(origin);
    const absl::string_view type = request.Header("Content-Type");
    if (!IsJsonType(type)) {
      return Refused(absl::InvalidArgumentError(
                         absl::StrCat("Content-Type is '", type.substr(0, 80),
                                      "'; it must be application/json")),
                     415);
    }
    const absl::Status encoding = CheckEncoding(request);
    if (!encoding.ok()) return Refused(encoding, 415);
    return std::nullopt;
  }

  HttpResponse Answer(HttpRequest& request) {
    const auto body = TakeBody(request, options_.most_body_bytes);
    if (absl::IsResourceExhausted(body.status())) {
      return Refused(body.status(), 413);
    }
    if (!body.ok()) return Refused(body.status());
    absl::StatusOr<CheckedCall> call = Check(request, *body);
    if (!call.ok()) return Refused(call.status());
    return call->method->server_streaming()
               ? AnswerStream(*std::move(call), request)
               : AnswerUnary(*std::move(call), request);
  }

  // Finds the method and converts the request.
  absl::StatusOr<CheckedCall> Check(const HttpRequest& request,
                                    const std::string& body) const {
    const std::vector<std::string> parts = absl::StrSplit(request.path, '/');
    // "", "api", service, method
    if (parts.size() != 4) return NoSuchPath(request);
    const auto method = index_.Find(parts[2], parts[3]);
    if (!method.ok()) return method.status();
    CheckedCall call{.method = *method,
                     .path = absl::StrCat("/", parts[2], "/", parts[3])};
    if (call.method->client_streaming()) {
      return absl::UnimplementedError(absl::StrCat(
          parts[3],
          " takes a stream of requests, which this gateway does not "
          "have; call ",
          call.path, " by gRPC, on port 8001 by default"));
    }
    auto wire = WireOfJson(*call.method->input_type(), body);
    if (!wire.ok()) return wire.status();
    call.request = *std::move(wire);
    const TimeLimits limits =
        call.method->server_streaming()
            ? TimeLimits{absl::InfiniteDuration(), kLongestStream}
            : TimeLimits{options_.unary_timeout, kLongestCall};
    const auto timeout = TimeLimitOf(request, limits);
    if (!timeout.ok()) return timeout.status();
    call.deadline = absl::Now() + *timeout;
    return call;
  }

  HttpResponse AnswerUnary(CheckedCall checked, const HttpRequest& request) {
    const auto call = calls_.Open(channel_, checked.deadline);
    if (!call.ok()) return Refused(call.status());
    const OnClientLoss loss(request.client, [&] { (*call)->Cancel(); });
    PassTraceContext(request, call->get());
    PassCaller(request, call->get());
    (*call)->StartUnary(checked.path, std::move(checked.request));
    (*call)->Next(absl::InfiniteFuture());
    const absl::Status status = calls_.StatusOf(**call);
    if (!status.ok()) return Refused(status);
    auto json = JsonOfWire(*checked.method->output_type(), (*call)->message());
    if (!json.ok()) return Refused(json.status());
    return Answered(200, *std::move(json));
  }

  HttpResponse AnswerStream(CheckedCall checked, const HttpRequest& request) {
    auto call = streams_.Open(channel_, checked.deadline);
    if (!call.ok()) return Refused(call.status());
    PassTraceContext(request, call->get());
    PassCaller(request, call->get());
    (*call)->Start(checked.path, std::move(checked.request));
    const bool events =
        absl::StrContains(request.Header("Accept"), "text/event-stream");
    const auto stream = std::make_shared<JsonStream>(
        *std::move(call), &streams_, checked.method->output_type(),
        events ? StreamForm::kServerSentEvents : StreamForm::kLines);
    const absl::Status failed =
        stream->AwaitFirst(options_.stream_fails_within);
    if (!failed.ok()) return Refused(failed);
    HttpResponse response;
    response.Set("Cache-Control", "no-store");
    response.Set("X-Content-Type-Options", "nosniff");
    response.Set("Content-Type",
                 events ? "text/event-stream" : "application/x-ndjson");
    response.stream = [stream](BodyWriter& writer) {
      stream->WriteAll(writer);
    };
    return response;
  }

  const JsonGatewayOptions options_;
  const std::shared_ptr<grpc::Channel> channel_;
  const MethodIndex index_;
  const std::string list_;
  OpenCalls calls_;
  OpenCalls streams_;
  BodyBudget bodies_;
};

JsonGateway::JsonGateway(const JsonGatewayOptions& options,
                         std::shared_ptr<grpc::Channel> channel)
    : impl_(std::make_unique<Impl>(options, std::move(channel))) {}

JsonGateway::~JsonGateway() = default;

void JsonGateway::AddRoutes(HttpRouter* router) { impl_->AddRoutes(router); }

void JsonGateway::Close(absl::Time end) { impl_->Close(end); }

}  // namespace gpupool::server
