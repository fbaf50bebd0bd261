#include "server/http/json_gateway.h"

#include <google/protobuf/descriptor.h>
#include <grpcpp/grpcpp.h>
#include <httplib.h>

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
#include "server/http/request_body.h"
#include "server/http/request_check.h"
#include "server/http/trace_headers.h"

namespace gpupool::server {
namespace {

using google::protobuf::MethodDescriptor;

// A method, and a request that has passed the checks.
struct CheckedCall {
  const MethodDescriptor* method = nullptr;
  std::string path;     // of gRPC
  std::string request;  // in wire format
  absl::Time deadline;
  TraceContextHeaders trace = {};
};

void SetAnswer(httplib::Response& response, int status,
               const std::string& json) {
  response.status = status;
  response.set_content(json, "application/json");
}

// Answers with the status of the code, or with another HTTP status.
void SetError(httplib::Response& response, const absl::Status& error,
              int status = 0) {
  SetAnswer(response, status != 0 ? status : HttpStatusOf(error.code()),
            StatusJson(error.code(), error.message()));
}

absl::Status NoSuchPath(const httplib::Request& request) {
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
        streams_("streams", options.most_streams) {}

  void AddRoutes(httplib::Server* server) {
    server->Get("/api/?", [this](const Request&, Response& response) {
      AddHeaders(response);
      SetAnswer(response, 200, list_);
    });
    server->Get("/api/.+", [](const Request&, Response& response) {
      AddHeaders(response);
      response.set_header("Allow", "POST");
      SetError(response,
               absl::UnimplementedError(
                   "methods are called by POST with a JSON body; GET /api "
                   "lists them"),
               405);
    });
    server->Post(
        "/api(?:/.*)?", [this](const Request& request, Response& response,
                               const httplib::ContentReader& reader) {
          AddHeaders(response);
          Answer(request, ReadBody(request, reader, options_.most_body_bytes),
                 response);
        });
  }

  void Close() {
    calls_.Close();
    streams_.Close();
  }

 private:
  using Request = httplib::Request;
  using Response = httplib::Response;

  static void AddHeaders(Response& response) {
    response.set_header("Cache-Control", "no-store");
    response.set_header("X-Content-Type-Options", "nosniff");
  }

  void Answer(const Request& request, const absl::StatusOr<std::string>& body,
              Response& response) {
    const absl::Status origin =
        CheckOrigin(request.get_header_value("Origin"),
                    request.get_header_value("Host"), options_.trusted);
    if (!origin.ok()) return SetError(response, origin);
    const std::string type = request.get_header_value("Content-Type");
    if (!IsJsonType(type)) {
      return SetError(response,
                      absl::InvalidArgumentError(
                          absl::StrCat("Content-Type is '", type.substr(0, 80),
                                       "'; it must be application/json")),
                      415);
    }
    if (absl::IsResourceExhausted(body.status())) {
      return SetError(response, body.status(), 413);
    }
    if (!body.ok()) return SetError(response, body.status());
    const absl::StatusOr<CheckedCall> call = Check(request, *body);
    if (!call.ok()) return SetError(response, call.status());
    if (call->method->server_streaming()) {
      AnswerStream(*call, request, response);
    } else {
      AnswerUnary(*call, response);
    }
  }

  // Finds the method and converts the request.
  absl::StatusOr<CheckedCall> Check(const Request& request,
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
    const auto timeout =
        TimeLimitOf(request.get_header_value("grpc-timeout"),
                    request.get_header_value("X-Timeout-Ms"), limits);
    if (!timeout.ok()) return timeout.status();
    call.deadline = absl::Now() + *timeout;
    call.trace = {request.get_header_value("traceparent"),
                  request.get_header_value("tracestate")};
    return call;
  }

  void AnswerUnary(const CheckedCall& checked, Response& response) {
    const auto call = calls_.Open(channel_, checked.deadline);
    if (!call.ok()) return SetError(response, call.status());
    PassTraceContext(checked.trace, call->get());
    (*call)->Start(checked.path, checked.request);
    while ((*call)->Next(absl::InfiniteFuture()) != GenericCall::Event::kEnd) {
    }
    const absl::Status status = calls_.StatusOf(**call);
    if (!status.ok()) return SetError(response, status);
    const auto json =
        JsonOfWire(*checked.method->output_type(), (*call)->message());
    if (!json.ok()) return SetError(response, json.status());
    SetAnswer(response, 200, *json);
  }

  void AnswerStream(const CheckedCall& checked, const Request& request,
                    Response& response) {
    auto call = streams_.Open(channel_, checked.deadline);
    if (!call.ok()) return SetError(response, call.status());
    PassTraceContext(checked.trace, call->get());
    (*call)->Start(checked.path, checked.request);
    const bool events = absl::StrContains(request.get_header_value("Accept"),
                                          "text/event-stream");
    const auto stream = std::make_shared<JsonStream>(
        *std::move(call), &streams_, checked.method->output_type(),
        events ? StreamForm::kServerSentEvents : StreamForm::kLines);
    const absl::Status failed =
        stream->AwaitFirst(options_.stream_fails_within);
    if (!failed.ok()) return SetError(response, failed);
    response.status = 200;
    response.set_chunked_content_provider(
        events ? "text/event-stream" : "application/x-ndjson",
        [stream](size_t, httplib::DataSink& sink) {
          return stream->Write(sink);
        });
  }

  const JsonGatewayOptions options_;
  const std::shared_ptr<grpc::Channel> channel_;
  const MethodIndex index_;
  const std::string list_;
  OpenCalls calls_;
  OpenCalls streams_;
};

JsonGateway::JsonGateway(const JsonGatewayOptions& options,
                         std::shared_ptr<grpc::Channel> channel)
    : impl_(std::make_unique<Impl>(options, std::move(channel))) {}

JsonGateway::~JsonGateway() = default;

void JsonGateway::AddRoutes(httplib::Server* server) {
  impl_->AddRoutes(server);
}

void JsonGateway::Close() { impl_->Close(); }

}  // namespace gpupool::server
