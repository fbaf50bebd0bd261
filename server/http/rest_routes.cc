#include "server/http/rest_routes.h"

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "inference/grpc_service.grpc.pb.h"
#include "server/http/generate_stream.h"
#include "server/http/http_status.h"
#include "server/http/port/body_budget.h"
#include "server/http/rest/plain_json.h"
#include "server/http/rest/rest_generate.h"
#include "server/http/rest/rest_infer_request.h"
#include "server/http/rest/rest_infer_response.h"
#include "server/http/rest/rest_json.h"
#include "server/http/rest/rest_log.h"
#include "server/http/rest/rest_regions.h"
#include "server/http/rest/rest_repository.h"
#include "server/http/rest/rest_trace.h"
#include "server/http/rest_calls.h"

namespace gpupool::server {
namespace {

using RestStub = RestCalls::Stub;

// Bodies in memory have at most this many times the bytes of the largest.
constexpr uint64_t kLargestBodies = 4;

// The responses of a POST whose call counts as open.
struct OpenGenerate {
  std::shared_ptr<GenericCall> call;
  std::shared_ptr<GenerateStream> stream;
  // Cancels the call, which must live longer. Must end before the stream is
  // written, which looks at the client by itself.
  std::unique_ptr<OnClientLoss> loss;
};

// An inference in wire format.
struct WrittenInfer {
  std::string wire;
  OutputForms forms;  // of its answer
};

// Answers with 413 for a request that is too large, instead of the 429 of an
// rpc that may be tried again.
HttpResponse ErrorOfBody(const absl::Status& error) {
  return ErrorAnswer(error, absl::IsResourceExhausted(error) ? 413 : 0);
}

// Returns the version that a path names; empty for the one of the server's
// choice.
std::string VersionIn(const HttpRequest& request) {
  return request.parts.size() > 1 ? request.parts[1] : std::string();
}

}  // namespace

class RestRoutes::Impl {
 public:
  Impl(const RestOptions& options, std::shared_ptr<grpc::Channel> channel)
      : options_(options),
        calls_(options, std::move(channel)),
        bodies_(kLargestBodies * options.most_body_bytes) {}

  void AddTo(HttpRouter* router) {
    AddServerRoutes(router);
    AddModelRoutes(router);
    AddRepositoryRoutes(router);
    AddMemoryRoutes(router);
    AddGet(router, {"/v2/logging", "LogSettings"}, &Impl::TellLog);
    AddPost(router, {"/v2/logging", "LogSettings"}, &Impl::ChangeLog);
    for (const std::string trace :
         {"/v2/trace/setting", "/v2/models/*/trace/setting"}) {
      AddGet(router, {trace, "TraceSetting"}, &Impl::TellTrace);
      AddPost(router, {trace, "TraceSetting"}, &Impl::ChangeTrace);
    }
  }

  void Close(absl::Time end) { calls_.open().Close(end); }

 private:
  using Handler = HttpResponse (Impl::*)(HttpRequest&);

  // A route and the rpc that it becomes.
  struct Entry {
    std::string pattern;
    absl::string_view rpc;
    Lane lane = Lane::kGet;  // of a GET
  };

  void AddGet(HttpRouter* router, const Entry& entry, Handler handler) {
    router->Add({.method = "GET",
                 .pattern = entry.pattern,
                 .calls = RestCalls::PathOf(entry.rpc),
                 .lane = entry.lane,
                 .answer = [this, handler](HttpRequest& request) {
                   return (this->*handler)(request);
                 }});
  }

  void AddPost(HttpRouter* router, const Entry& entry, Handler handler) {
    router->Add({.method = "POST",
                 .pattern = entry.pattern,
                 .calls = RestCalls::PathOf(entry.rpc),
                 .lane = Lane::kPost,
                 .most_body_bytes = options_.most_body_bytes,
                 .bodies = &bodies_,
                 .refuse =
                     [this](const HttpRequest& request) {
                       return calls_.Refuse(request);
                     },
                 .answer =
                     [this, handler](HttpRequest& request) {
                       return (this->*handler)(request);
                     }});
  }

  void AddServerRoutes(HttpRouter* router) {
    AddGet(router, {"/v2/health/live", "ServerLive", Lane::kHealth},
           &Impl::TellLive);
    AddGet(router, {"/v2/health/ready", "ServerReady", Lane::kHealth},
           &Impl::TellReady);
    for (const std::string server : {"/v2", "/v2/"}) {
      AddGet(router, {server, "ServerMetadata"}, &Impl::DescribeServer);
    }
  }

  void AddModelRoutes(HttpRouter* router) {
    // Before the routes with a model's name, which it would be taken for.
    AddGet(router, {"/v2/models/stats", "ModelStatistics"},
           &Impl::TellAllStatistics);
    for (const std::string model :
         {"/v2/models/*", "/v2/models/*/versions/*"}) {
      AddGet(router, {model, "ModelMetadata"}, &Impl::DescribeModel);
      AddGet(router, {model + "/ready", "ModelReady"}, &Impl::TellModelReady);
      AddGet(router, {model + "/config", "ModelConfig"}, &Impl::TellConfig);
      AddGet(router, {model + "/stats", "ModelStatistics"},
             &Impl::TellStatistics);
      AddPost(router, {model + "/infer", "ModelInfer"}, &Impl::Infer);
      AddPost(router, {model + "/generate", "ModelStreamInfer"},
              &Impl::Generate);
      AddPost(router, {model + "/generate_stream", "ModelStreamInfer"},
              &Impl::StreamGenerated);
    }
  }

  void AddRepositoryRoutes(HttpRouter* router) {
    using Load = inference::RepositoryModelLoadRequest;
    using Unload = inference::RepositoryModelUnloadRequest;
    for (const std::string repository :
         {"/v2/repository", "/v2/repository/*"}) {
      AddPost(router, {repository + "/index", "RepositoryIndex"},
              &Impl::ListModels);
      AddPost(router, {repository + "/models/*/load", "RepositoryModelLoad"},
              &Impl::Change<Load>);
      AddPost(router,
              {repository + "/models/*/unload", "RepositoryModelUnload"},
              &Impl::Change<Unload>);
    }
  }

  void AddMemoryRoutes(HttpRouter* router) {
    using System = inference::SystemSharedMemoryUnregisterRequest;
    using Cuda = inference::CudaSharedMemoryUnregisterRequest;
    for (const std::string system :
         {"/v2/systemsharedmemory", "/v2/systemsharedmemory/region/*"}) {
      AddGet(router, {system + "/status", "SystemSharedMemoryStatus"},
             &Impl::TellRegions);
      AddPost(router, {system + "/unregister", "SystemSharedMemoryUnregister"},
              &Impl::Unregister<System>);
    }
    for (const std::string cuda :
         {"/v2/cudasharedmemory", "/v2/cudasharedmemory/region/*"}) {
      AddGet(router, {cuda + "/status", "CudaSharedMemoryStatus"},
             &Impl::TellCudaRegions);
      AddPost(router, {cuda + "/unregister", "CudaSharedMemoryUnregister"},
              &Impl::Unregister<Cuda>);
    }
    AddPost(router,
            {"/v2/systemsharedmemory/region/*/register",
             "SystemSharedMemoryRegister"},
            &Impl::Register);
    AddPost(
        router,
        {"/v2/cudasharedmemory/region/*/register", "CudaSharedMemoryRegister"},
        &Impl::RegisterCuda);
  }

  HttpResponse TellLive(HttpRequest& request) {
    inference::ServerLiveResponse answer;
    const absl::Status asked =
        calls_.AskNow(&RestStub::ServerLive, inference::ServerLiveRequest(),
                      request, &answer);
    if (!asked.ok()) return ErrorAnswer(asked);
    return JsonAnswer(answer.live() ? 200 : 400,
                      FlagJson("live", answer.live()));
  }

  HttpResponse TellReady(HttpRequest& request) {
    inference::ServerReadyResponse answer;
    const absl::Status asked =
        calls_.AskNow(&RestStub::ServerReady, inference::ServerReadyRequest(),
                      request, &answer);
    if (!asked.ok()) return ErrorAnswer(asked);
    return JsonAnswer(answer.ready() ? 200 : 400,
                      FlagJson("ready", answer.ready()));
  }

  HttpResponse DescribeServer(HttpRequest& request) {
    inference::ServerMetadataResponse answer;
    const absl::Status asked =
        calls_.AskNow(&RestStub::ServerMetadata,
                      inference::ServerMetadataRequest(), request, &answer);
    if (!asked.ok()) return ErrorAnswer(asked);
    return JsonAnswer(200, ToJson(answer));
  }

  HttpResponse TellLog(HttpRequest& request) {
    inference::LogSettingsResponse answer;
    const absl::Status asked =
        calls_.AskNow(&RestStub::LogSettings, inference::LogSettingsRequest(),
                      request, &answer);
    if (!asked.ok()) return ErrorAnswer(asked);
    return JsonAnswer(200, LogSettingsJson(answer));
  }

  HttpResponse DescribeModel(HttpRequest& request) {
    inference::ModelMetadataResponse answer;
    const absl::Status asked = calls_.AskNow(
        &RestStub::ModelMetadata,
        QuestionOf<inference::ModelMetadataRequest>(request), request, &answer);
    if (!asked.ok()) return ErrorAnswer(asked);
    return JsonAnswer(200, ToJson(answer));
  }

  HttpResponse TellModelReady(HttpRequest& request) {
    inference::ModelReadyResponse answer;
    const absl::Status asked = calls_.AskNow(
        &RestStub::ModelReady,
        QuestionOf<inference::ModelReadyRequest>(request), request, &answer);
    if (!asked.ok()) return ErrorAnswer(asked);
    return JsonAnswer(answer.ready() ? 200 : 400,
                      ModelReadyJson(request.parts[0], answer.ready()));
  }

  HttpResponse TellConfig(HttpRequest& request) {
    inference::ModelConfigResponse answer;
    const absl::Status asked = calls_.AskNow(
        &RestStub::ModelConfig,
        QuestionOf<inference::ModelConfigRequest>(request), request, &answer);
    if (!asked.ok()) return ErrorAnswer(asked);
    return JsonAnswer(200, PlainJson(answer.config()));
  }

  HttpResponse TellStatistics(HttpRequest& request) {
    return StatisticsFor(
        request, QuestionOf<inference::ModelStatisticsRequest>(request));
  }

  HttpResponse TellAllStatistics(HttpRequest& request) {
    return StatisticsFor(request, {});
  }

  HttpResponse StatisticsFor(
      const HttpRequest& request,
      const inference::ModelStatisticsRequest& question) {
    inference::ModelStatisticsResponse answer;
    const absl::Status asked =
        calls_.AskNow(&RestStub::ModelStatistics, question, request, &answer);
    if (!asked.ok()) return ErrorAnswer(asked);
    return JsonAnswer(200, PlainJson(answer));
  }

  // Returns a question about the model and the version of a path.
  template <typename Question>
  static Question QuestionOf(const HttpRequest& request) {
    Question question;
    question.set_name(request.parts[0]);
    question.set_version(VersionIn(request));
    return question;
  }

  HttpResponse Infer(HttpRequest& request) {
    auto post = calls_.Open(request);
    if (!post.ok()) return ErrorOfBody(post.status());
    auto infer = WriteInfer(request, post->body);
    if (!infer.ok()) return ErrorOfBody(infer.status());
    post->body = std::string();  // frees its memory for the answer
    const absl::Status ended =
        calls_.Ask(*post->call, "ModelInfer", std::move(infer->wire));
    if (!ended.ok()) return ErrorAnswer(ended);
    inference::ModelInferResponse answer;
    if (!answer.ParseFromString(post->call->message())) {
      return ErrorAnswer(Unreadable());
    }
    return InferAnswer(WriteInferResponse(answer, infer->forms));
  }

  // Returns the rpc's request for a body.
  absl::StatusOr<WrittenInfer> WriteInfer(const HttpRequest& request,
                                          absl::string_view body) {
    auto read = ReadInfer(request, body);
    if (!read.ok()) return read.status();
    read->message.set_model_name(request.parts[0]);
    read->message.set_model_version(VersionIn(request));
    WrittenInfer infer{WireOf(*read), std::move(read->forms)};
    if (infer.wire.size() <= options_.most_body_bytes) return infer;
    return absl::ResourceExhaustedError(absl::StrCat(
        "the tensors of the request have ", infer.wire.size(),
        " bytes, the most is ", options_.most_body_bytes, "; send fewer rows"));
  }

  // Reads the body of an inference in the form that its header says.
  absl::StatusOr<RestInferRequest> ReadInfer(const HttpRequest& request,
                                             absl::string_view body) {
    const size_t headers = request.Count(kJsonLengthHeader);
    if (headers == 0) return ReadInferRequest(body, std::nullopt);
    if (headers > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("the header ", kJsonLengthHeader, " is there ", headers,
                       " times; give it once"));
    }
    const auto json_bytes = ReadJsonLength(request.Header(kJsonLengthHeader));
    if (!json_bytes.ok()) return json_bytes.status();
    if (*json_bytes > 0) return ReadInferRequest(body, *json_bytes);
    inference::ModelMetadataResponse model;
    const absl::Status asked = calls_.AskNow(
        &RestStub::ModelMetadata,
        QuestionOf<inference::ModelMetadataRequest>(request), request, &model);
    if (!asked.ok()) return asked;
    return ReadRawRequest(model, body);
  }

  static HttpResponse InferAnswer(absl::StatusOr<RestInferAnswer> answer) {
    if (!answer.ok()) return ErrorAnswer(answer.status());
    if (!answer->json_bytes.has_value()) {
      return JsonAnswer(200, std::move(answer->body));
    }
    HttpResponse response;
    response.Set("Content-Type", "application/octet-stream");
    response.Set(kJsonLengthHeader, absl::StrCat(*answer->json_bytes));
    response.body = std::move(answer->body);
    return response;
  }

  HttpResponse Generate(HttpRequest& request) {
    auto stream = StartGenerate(request);
    if (!stream.ok()) return ErrorOfBody(stream.status());
    const absl::Status failed = stream->stream->AwaitFirst();
    if (!failed.ok()) return ErrorAnswer(failed);
    auto json = stream->stream->TakeOnly();
    if (!json.ok()) return ErrorAnswer(json.status());
    return JsonAnswer(200, *std::move(json));
  }

  HttpResponse StreamGenerated(HttpRequest& request) {
    auto started = StartGenerate(request);
    if (!started.ok()) return ErrorOfBody(started.status());
    const absl::Status failed = started->stream->AwaitFirst();
    if (!failed.ok()) return ErrorAnswer(failed);
    HttpResponse response;
    response.Set("Cache-Control", "no-store");
    response.Set("X-Content-Type-Options", "nosniff");
    response.Set("Content-Type", "text/event-stream");
    response.stream = [stream = started->stream](BodyWriter& writer) {
      stream->WriteAll(writer);
    };
    return response;
  }

  // Sends the body of a generation as the only request of a stream.
  absl::StatusOr<OpenGenerate> StartGenerate(HttpRequest& request) {
    auto post = calls_.Open(request);
    if (!post.ok()) return post.status();
    inference::ModelMetadataResponse model;
    const absl::Status asked = calls_.AskNow(
        &RestStub::ModelMetadata,
        QuestionOf<inference::ModelMetadataRequest>(request), request, &model);
    if (!asked.ok()) return asked;
    auto wire = WireOfGenerate(model, VersionIn(request), post->body);
    if (!wire.ok()) return wire.status();
    post->call->AddMetadata("triton_grpc_error", "true");
    post->call->Start(RestCalls::PathOf("ModelStreamInfer"), *std::move(wire));
    auto stream = std::make_shared<GenerateStream>(post->call, &calls_.open());
    return OpenGenerate{std::move(post->call), std::move(stream),
                        std::move(post->loss)};
  }

  HttpResponse ListModels(HttpRequest& request) {
    const auto post = calls_.Open(request);
    if (!post.ok()) return ErrorOfBody(post.status());
    auto question = ReadIndexRequest(post->body);
    if (!question.ok()) return ErrorAnswer(question.status());
    if (!request.parts.empty()) {
      question->set_repository_name(request.parts[0]);
    }
    const absl::Status asked = calls_.Ask(*post->call, "RepositoryIndex",
                                          question->SerializeAsString());
    if (!asked.ok()) return ErrorAnswer(asked);
    inference::RepositoryIndexResponse answer;
    if (!answer.ParseFromString(post->call->message())) {
      return ErrorAnswer(Unreadable());
    }
    return JsonAnswer(200, ToJson(answer));
  }

  // Loads or unloads a model, as the type says.
  template <typename Question>
  HttpResponse Change(HttpRequest& request) {
    const auto post = calls_.Open(request);
    if (!post.ok()) return ErrorOfBody(post.status());
    Question question;
    const absl::Status read =
        ReadRepositoryParameters(post->body, question.mutable_parameters());
    if (!read.ok()) return ErrorAnswer(read);
    if (request.parts.size() > 1) {
      question.set_repository_name(request.parts[0]);
    }
    question.set_model_name(request.parts.back());
    const bool loads =
        std::is_same_v<Question, inference::RepositoryModelLoadRequest>;
    const absl::Status asked = calls_.Ask(
        *post->call, loads ? "RepositoryModelLoad" : "RepositoryModelUnload",
        question.SerializeAsString());
    if (!asked.ok()) return ErrorAnswer(asked);
    return JsonAnswer(200, "{}");
  }

  HttpResponse TellRegions(HttpRequest& request) {
    inference::SystemSharedMemoryStatusRequest question;
    question.set_name(RegionIn(request));
    inference::SystemSharedMemoryStatusResponse answer;
    const absl::Status asked = calls_.AskNow(
        &RestStub::SystemSharedMemoryStatus, question, request, &answer);
    if (!asked.ok()) return ErrorAnswer(asked);
    return JsonAnswer(200, RegionsJson(answer));
  }

  // There are no regions of CUDA, so an answer has none.
  HttpResponse TellCudaRegions(HttpRequest& request) {
    inference::CudaSharedMemoryStatusRequest question;
    question.set_name(RegionIn(request));
    inference::CudaSharedMemoryStatusResponse answer;
    const absl::Status asked = calls_.AskNow(&RestStub::CudaSharedMemoryStatus,
                                             question, request, &answer);
    if (!asked.ok()) return ErrorAnswer(asked);
    return JsonAnswer(200, "[]");
  }

  HttpResponse Register(HttpRequest& request) {
    const auto post = calls_.Open(request);
    if (!post.ok()) return ErrorOfBody(post.status());
    auto question = ReadRegionRequest(post->body);
    if (!question.ok()) return ErrorAnswer(question.status());
    question->set_name(RegionIn(request));
    return AskForNothing(*post->call, "SystemSharedMemoryRegister",
                         question->SerializeAsString());
  }

  // Lets the service refuse, whatever the body is.
  HttpResponse RegisterCuda(HttpRequest& request) {
    const auto post = calls_.Open(request);
    if (!post.ok()) return ErrorOfBody(post.status());
    return AskForNothing(*post->call, "CudaSharedMemoryRegister", "");
  }

  template <typename Question>
  HttpResponse Unregister(HttpRequest& request) {
    const auto post = calls_.Open(request);
    if (!post.ok()) return ErrorOfBody(post.status());
    Question question;
    question.set_name(RegionIn(request));
    const bool system =
        std::is_same_v<Question,
                       inference::SystemSharedMemoryUnregisterRequest>;
    return AskForNothing(
        *post->call,
        system ? "SystemSharedMemoryUnregister" : "CudaSharedMemoryUnregister",
        question.SerializeAsString());
  }

  // Returns the region that a path names; empty for all of them.
  static std::string RegionIn(const HttpRequest& request) {
    return request.parts.empty() ? std::string() : request.parts[0];
  }

  // Makes an rpc whose response is empty.
  HttpResponse AskForNothing(GenericCall& call, absl::string_view method,
                             std::string question) {
    const absl::Status asked = calls_.Ask(call, method, std::move(question));
    if (!asked.ok()) return ErrorAnswer(asked);
    return JsonAnswer(200, "{}");
  }

  HttpResponse ChangeLog(HttpRequest& request) {
    const auto post = calls_.Open(request);
    if (!post.ok()) return ErrorOfBody(post.status());
    return AnswerSettings(*post->call, "LogSettings",
                          ReadLogRequest(post->body), &LogSettingsJson);
  }

  HttpResponse TellTrace(HttpRequest& request) {
    inference::TraceSettingRequest question;
    if (!request.parts.empty()) question.set_model_name(request.parts[0]);
    inference::TraceSettingResponse answer;
    const absl::Status asked =
        calls_.AskNow(&RestStub::TraceSetting, question, request, &answer);
    if (!asked.ok()) return ErrorAnswer(asked);
    return JsonAnswer(200, TraceSettingsJson(answer));
  }

  HttpResponse ChangeTrace(HttpRequest& request) {
    const auto post = calls_.Open(request);
    if (!post.ok()) return ErrorOfBody(post.status());
    auto question = ReadTraceRequest(post->body);
    if (question.ok() && !request.parts.empty()) {
      question->set_model_name(request.parts[0]);
    }
    return AnswerSettings(*post->call, "TraceSetting", question,
                          &TraceSettingsJson);
  }

  // Sends the settings of a body and answers with those that are in force.
  template <typename Question, typename Answer>
  HttpResponse AnswerSettings(GenericCall& call, absl::string_view method,
                              const absl::StatusOr<Question>& question,
                              std::string (*json)(const Answer&)) {
    if (!question.ok()) return ErrorAnswer(question.status());
    const absl::Status asked =
        calls_.Ask(call, method, question->SerializeAsString());
    if (!asked.ok()) return ErrorAnswer(asked);
    Answer answer;
    if (!answer.ParseFromString(call.message())) {
      return ErrorAnswer(Unreadable());
    }
    return JsonAnswer(200, json(answer));
  }

  static absl::Status Unreadable() {
    return absl::InternalError("the answer of the server cannot be read");
  }

  const RestOptions options_;
  RestCalls calls_;
  BodyBudget bodies_;
};

RestRoutes::RestRoutes(const RestOptions& options,
                       std::shared_ptr<grpc::Channel> channel)
    : impl_(std::make_unique<Impl>(options, std::move(channel))) {}

RestRoutes::~RestRoutes() = default;

void RestRoutes::AddTo(HttpRouter* router) { impl_->AddTo(router); }

void RestRoutes::Close(absl::Time end) { impl_->Close(end); }

}  // namespace gpupool::server
