#include "server/http/rest_routes.h"

#include <grpcpp/grpcpp.h>
#include <httplib.h>

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "inference/grpc_service.grpc.pb.h"
#include "server/http/body_budget.h"
#include "server/http/http_status.h"
#include "server/http/open_calls.h"
#include "server/http/request_body.h"
#include "server/http/rest/plain_json.h"
#include "server/http/rest/rest_infer_request.h"
#include "server/http/rest/rest_infer_response.h"
#include "server/http/rest/rest_json.h"
#include "server/http/rest/rest_log.h"
#include "server/http/rest/rest_repository.h"
#include "server/http/trace_headers.h"

namespace gpupool::server {
namespace {

using RestStub = inference::GRPCInferenceService::Stub;

// Bodies in memory have at most this many times the bytes of the largest.
constexpr uint64_t kLargestBodies = 4;

// A POST that has passed the checks of its headers.
struct OpenPost {
  std::shared_ptr<GenericCall> call;
  BodyBudget::Place place;  // of the body
  std::string body;
};

// An inference in wire format.
struct WrittenInfer {
  std::string wire;
  OutputForms forms;  // of its answer
};

void ReplyJson(httplib::Response& response, int status, std::string body) {
  response.status = status;
  response.body = std::move(body);
  response.set_header("Content-Type", "application/json");
}

// Answers with the status of the code, or with another HTTP status.
void ReplyError(httplib::Response& response, const absl::Status& error,
                int status = 0) {
  ReplyJson(response, status != 0 ? status : HttpStatusOf(error.code()),
            ErrorJson(std::string(error.message())));
}

// Answers with 413 for a request that is too large, instead of the 429 of an
// rpc that may be tried again.
void ReplyTooLarge(httplib::Response& response, const absl::Status& error) {
  ReplyError(response, error, absl::IsResourceExhausted(error) ? 413 : 0);
}

std::string PathOf(absl::string_view method) {
  return absl::StrCat("/inference.GRPCInferenceService/", method);
}

}  // namespace

class RestRoutes::Impl {
 public:
  Impl(const RestOptions& options, std::shared_ptr<grpc::Channel> channel)
      : options_(options),
        channel_(std::move(channel)),
        stub_(inference::GRPCInferenceService::NewStub(channel_)),
        calls_("POSTs of /v2", options.most_calls),
        bodies_(kLargestBodies * options.most_body_bytes) {}

  void AddTo(httplib::Server* server) {
    AddServerRoutes(server);
    AddModelRoutes(server);
    AddInferRoute(server);
    AddRepositoryRoutes(server);
    AddLogRoutes(server);
  }

  void Close() { calls_.Close(); }

 private:
  using Request = httplib::Request;
  using Response = httplib::Response;

  void AddServerRoutes(httplib::Server* server) {
    server->Get("/v2/health/live", [this](const Request&, Response& response) {
      inference::ServerLiveResponse answer;
      if (!Get(&RestStub::ServerLive, inference::ServerLiveRequest(), &answer,
               response)) {
        return;
      }
      ReplyJson(response, answer.live() ? 200 : 400,
                FlagJson("live", answer.live()));
    });
    server->Get("/v2/health/ready", [this](const Request&, Response& response) {
      inference::ServerReadyResponse answer;
      if (!Get(&RestStub::ServerReady, inference::ServerReadyRequest(), &answer,
               response)) {
        return;
      }
      ReplyJson(response, answer.ready() ? 200 : 400,
                FlagJson("ready", answer.ready()));
    });
    server->Get("/v2/?", [this](const Request&, Response& response) {
      inference::ServerMetadataResponse answer;
      if (Get(&RestStub::ServerMetadata, inference::ServerMetadataRequest(),
              &answer, response)) {
        ReplyJson(response, 200, ToJson(answer));
      }
    });
  }

  void AddModelRoutes(httplib::Server* server) {
    // Before the routes with a model's name, which it would be taken for.
    server->Get("/v2/models/stats", [this](const Request&, Response& response) {
      TellStatistics({}, {}, response);
    });
    using Handler =
        void (Impl::*)(const std::string&, const std::string&, Response&);
    const std::pair<const char*, Handler> routes[] = {
        {"", &Impl::DescribeModel},
        {"/ready", &Impl::TellModelReady},
        {"/config", &Impl::TellConfig},
        {"/stats", &Impl::TellStatistics}};
    for (const auto& [end, handler] : routes) {
      // Without a version in the path the second match is empty, which the
      // protocol takes for the version of the server's choice.
      server->Get(absl::StrCat("/v2/models/([^/]+)(?:/versions/([^/]+))?", end),
                  [this, handler = handler](const Request& request,
                                            Response& response) {
                    (this->*handler)(request.matches[1], request.matches[2],
                                     response);
                  });
    }
  }

  void AddInferRoute(httplib::Server* server) {
    server->Post("/v2/models/([^/]+)(?:/versions/([^/]+))?/infer",
                 [this](const Request& request, Response& response,
                        const httplib::ContentReader& reader) {
                   Infer(request, reader, response);
                 });
  }

  void AddRepositoryRoutes(httplib::Server* server) {
    const std::string repository = "/v2/repository(?:/([^/]+))?";
    server->Post(repository + "/index",
                 [this](const Request& request, Response& response,
                        const httplib::ContentReader& reader) {
                   ListModels(request, reader, response);
                 });
    const std::string model = repository + "/models/([^/]+)";
    server->Post(
        model + "/load", [this](const Request& request, Response& response,
                                const httplib::ContentReader& reader) {
          using Load = inference::RepositoryModelLoadRequest;
          Change<Load>("RepositoryModelLoad", request, reader, response);
        });
    server->Post(
        model + "/unload", [this](const Request& request, Response& response,
                                  const httplib::ContentReader& reader) {
          using Unload = inference::RepositoryModelUnloadRequest;
          Change<Unload>("RepositoryModelUnload", request, reader, response);
        });
  }

  void AddLogRoutes(httplib::Server* server) {
    server->Get("/v2/logging", [this](const Request&, Response& response) {
      inference::LogSettingsResponse answer;
      if (Get(&RestStub::LogSettings, inference::LogSettingsRequest(), &answer,
              response)) {
        ReplyJson(response, 200, LogSettingsJson(answer));
      }
    });
    server->Post("/v2/logging",
                 [this](const Request& request, Response& response,
                        const httplib::ContentReader& reader) {
                   ChangeLog(request, reader, response);
                 });
  }

  void DescribeModel(const std::string& model, const std::string& version,
                     Response& response) {
    inference::ModelMetadataRequest request;
    request.set_name(model);
    request.set_version(version);
    inference::ModelMetadataResponse answer;
    if (Get(&RestStub::ModelMetadata, request, &answer, response)) {
      ReplyJson(response, 200, ToJson(answer));
    }
  }

  void TellModelReady(const std::string& model, const std::string& version,
                      Response& response) {
    inference::ModelReadyRequest request;
    request.set_name(model);
    request.set_version(version);
    inference::ModelReadyResponse answer;
    if (Get(&RestStub::ModelReady, request, &answer, response)) {
      ReplyJson(response, answer.ready() ? 200 : 400,
                ModelReadyJson(model, answer.ready()));
    }
  }

  void TellConfig(const std::string& model, const std::string& version,
                  Response& response) {
    inference::ModelConfigRequest request;
    request.set_name(model);
    request.set_version(version);
    inference::ModelConfigResponse answer;
    if (Get(&RestStub::ModelConfig, request, &answer, response)) {
      ReplyJson(response, 200, PlainJson(answer.config()));
    }
  }

  void TellStatistics(const std::string& model, const std::string& version,
                      Response& response) {
    inference::ModelStatisticsRequest request;
    request.set_name(model);
    request.set_version(version);
    inference::ModelStatisticsResponse answer;
    if (Get(&RestStub::ModelStatistics, request, &answer, response)) {
      ReplyJson(response, 200, PlainJson(answer));
    }
  }

  void Infer(const Request& request, const httplib::ContentReader& reader,
             Response& response) {
    auto post = Open(request, reader, response);
    if (!post.has_value()) return;
    auto infer = WriteInfer(request, post->body);
    if (!infer.ok()) return ReplyTooLarge(response, infer.status());
    post->body = std::string();  // frees its memory for the answer
    const absl::Status ended =
        Ask(*post->call, "ModelInfer", std::move(infer->wire));
    if (!ended.ok()) return ReplyError(response, ended);
    inference::ModelInferResponse answer;
    if (!answer.ParseFromString(post->call->message())) {
      return ReplyError(response, Unreadable());
    }
    ReplyInfer(WriteInferResponse(answer, infer->forms), response);
  }

  // Returns the rpc's request for a body.
  absl::StatusOr<WrittenInfer> WriteInfer(const Request& request,
                                          absl::string_view body) {
    auto read = ReadInfer(request, body);
    if (!read.ok()) return read.status();
    read->message.set_model_name(request.matches[1]);
    read->message.set_model_version(request.matches[2]);
    WrittenInfer infer{WireOf(*read), std::move(read->forms)};
    if (infer.wire.size() <= options_.most_body_bytes) return infer;
    return absl::ResourceExhaustedError(absl::StrCat(
        "the tensors of the request have ", infer.wire.size(),
        " bytes, the most is ", options_.most_body_bytes, "; send fewer rows"));
  }

  // Reads the body of an inference in the form that its header says.
  absl::StatusOr<RestInferRequest> ReadInfer(const Request& request,
                                             absl::string_view body) {
    const size_t headers = request.get_header_value_count(kJsonLengthHeader);
    if (headers == 0) return ReadInferRequest(body, std::nullopt);
    if (headers > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("the header ", kJsonLengthHeader, " is there ", headers,
                       " times; give it once"));
    }
    const auto json_bytes =
        ReadJsonLength(request.get_header_value(kJsonLengthHeader));
    if (!json_bytes.ok()) return json_bytes.status();
    if (*json_bytes > 0) return ReadInferRequest(body, *json_bytes);
    inference::ModelMetadataRequest question;
    question.set_name(request.matches[1]);
    question.set_version(request.matches[2]);
    inference::ModelMetadataResponse model;
    const absl::Status asked =
        AskNow(&RestStub::ModelMetadata, question, &model);
    if (!asked.ok()) return asked;
    return ReadRawRequest(model, body);
  }

  static void ReplyInfer(absl::StatusOr<RestInferAnswer> answer,
                         Response& response) {
    if (!answer.ok()) return ReplyError(response, answer.status());
    const bool binary = answer->json_bytes.has_value();
    response.status = 200;
    response.body = std::move(answer->body);
    response.set_header("Content-Type", binary ? "application/octet-stream"
                                               : "application/json");
    if (!binary) return;
    response.set_header(kJsonLengthHeader, absl::StrCat(*answer->json_bytes));
  }

  void ListModels(const Request& request, const httplib::ContentReader& reader,
                  Response& response) {
    const auto post = Open(request, reader, response);
    if (!post.has_value()) return;
    auto question = ReadIndexRequest(post->body);
    if (!question.ok()) return ReplyError(response, question.status());
    question->set_repository_name(request.matches[1]);
    const absl::Status asked =
        Ask(*post->call, "RepositoryIndex", question->SerializeAsString());
    if (!asked.ok()) return ReplyError(response, asked);
    inference::RepositoryIndexResponse answer;
    if (!answer.ParseFromString(post->call->message())) {
      return ReplyError(response, Unreadable());
    }
    ReplyJson(response, 200, ToJson(answer));
  }

  // Loads or unloads a model.
  template <typename Question>
  void Change(absl::string_view method, const Request& request,
              const httplib::ContentReader& reader, Response& response) {
    const auto post = Open(request, reader, response);
    if (!post.has_value()) return;
    Question question;
    const absl::Status read =
        ReadRepositoryParameters(post->body, question.mutable_parameters());
    if (!read.ok()) return ReplyError(response, read);
    question.set_repository_name(request.matches[1]);
    question.set_model_name(request.matches[2]);
    const absl::Status asked =
        Ask(*post->call, method, question.SerializeAsString());
    if (!asked.ok()) return ReplyError(response, asked);
    ReplyJson(response, 200, "{}");
  }

  void ChangeLog(const Request& request, const httplib::ContentReader& reader,
                 Response& response) {
    const auto post = Open(request, reader, response);
    if (!post.has_value()) return;
    const auto question = ReadLogRequest(post->body);
    if (!question.ok()) return ReplyError(response, question.status());
    const absl::Status asked =
        Ask(*post->call, "LogSettings", question->SerializeAsString());
    if (!asked.ok()) return ReplyError(response, asked);
    inference::LogSettingsResponse answer;
    if (!answer.ParseFromString(post->call->message())) {
      return ReplyError(response, Unreadable());
    }
    ReplyJson(response, 200, LogSettingsJson(answer));
  }

  static absl::Status Unreadable() {
    return absl::InternalError("the answer of the server cannot be read");
  }

  // Asks by one rpc that takes no time. Returns false when it failed;
  // `response` then has the error.
  template <typename Method, typename Question, typename Answer>
  bool Get(Method method, const Question& question, Answer* answer,
           Response& response) {
    const absl::Status status = AskNow(method, question, answer);
    if (!status.ok()) ReplyError(response, status);
    return status.ok();
  }

  template <typename Method, typename Question, typename Answer>
  absl::Status AskNow(Method method, const Question& question, Answer* answer) {
    grpc::ClientContext context;
    context.set_deadline(
        absl::ToChronoTime(absl::Now() + options_.get_timeout));
    const grpc::Status status =
        (stub_.get()->*method)(&context, question, answer);
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                        status.error_message());
  }

  // Checks the headers, opens a call, takes a place for the body and reads it,
  // in this order, so that the bodies in memory are bounded. Returns nothing
  // when that failed; `response` then has the error.
  std::optional<OpenPost> Open(const Request& request,
                               const httplib::ContentReader& reader,
                               Response& response) {
    auto post = Begin(request);
    if (!post.ok()) {
      DiscardBody(request, reader, options_.most_body_bytes);
      ReplyError(response, post.status());
      return std::nullopt;
    }
    auto body = ReadBody(request, reader, options_.most_body_bytes);
    if (!body.ok()) {
      ReplyTooLarge(response, body.status());
      return std::nullopt;
    }
    post->body = *std::move(body);
    return *std::move(post);
  }

  // Returns a POST without its body.
  absl::StatusOr<OpenPost> Begin(const Request& request) {
    auto call = OpenCall(request);
    if (!call.ok()) return call.status();
    auto place = bodies_.Take(BoundOfBody(request, options_.most_body_bytes));
    if (place.has_value()) {
      return OpenPost{*std::move(call), *std::move(place), {}};
    }
    return absl::ResourceExhaustedError(absl::StrCat(
        "the bodies of requests over HTTP have ", bodies_.most(),
        " bytes at a time, which is the most; retry later, or call by gRPC"));
  }

  absl::StatusOr<std::shared_ptr<GenericCall>> OpenCall(
      const Request& request) {
    const absl::Status origin =
        CheckOrigin(request.get_header_value("Origin"),
                    request.get_header_value("Host"), options_.trusted);
    if (!origin.ok()) return origin;
    const auto timeout = TimeLimitOf(request.get_header_value("grpc-timeout"),
                                     request.get_header_value("X-Timeout-Ms"),
                                     {options_.post_timeout, kLongestCall});
    if (!timeout.ok()) return timeout.status();
    auto call = calls_.Open(channel_, absl::Now() + *timeout);
    if (!call.ok()) return call.status();
    PassTraceContext({request.get_header_value("traceparent"),
                      request.get_header_value("tracestate")},
                     call->get());
    return call;
  }

  // Sends the request and waits for the end of the rpc.
  absl::Status Ask(GenericCall& call, absl::string_view method,
                   std::string request) {
    call.Start(PathOf(method), std::move(request));
    while (call.Next(absl::InfiniteFuture()) != GenericCall::Event::kEnd) {
    }
    return calls_.StatusOf(call);
  }

  const RestOptions options_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<RestStub> stub_;
  OpenCalls calls_;
  BodyBudget bodies_;
};

RestRoutes::RestRoutes(const RestOptions& options,
                       std::shared_ptr<grpc::Channel> channel)
    : impl_(std::make_unique<Impl>(options, std::move(channel))) {}

RestRoutes::~RestRoutes() = default;

void RestRoutes::AddTo(httplib::Server* server) { impl_->AddTo(server); }

void RestRoutes::Close() { impl_->Close(); }

}  // namespace gpupool::server
