#include "server/http/http_server.h"

#include <grpcpp/grpcpp.h>
#include <httplib.h>

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "inference/grpc_service.grpc.pb.h"
#include "server/http/rest_json.h"
#include "server/http/web_routes.h"

namespace gpupool::server {
namespace {

constexpr char kJson[] = "application/json";

// Returns the protocol's HTTP status for a gRPC code. Codes that the protocol
// does not use have HTTP's own status.
int HttpStatus(grpc::StatusCode code) {
  switch (code) {
    case grpc::OK:
      return 200;
    case grpc::NOT_FOUND:
      return 404;
    case grpc::UNAVAILABLE:
      return 503;
    case grpc::UNIMPLEMENTED:
      return 501;
    case grpc::INTERNAL:
    case grpc::DATA_LOSS:
      return 500;
    case grpc::RESOURCE_EXHAUSTED:
      return 429;
    case grpc::DEADLINE_EXCEEDED:
      return 504;
    default:
      return 400;
  }
}

void Reply(httplib::Response& response, int status, const std::string& body) {
  response.status = status;
  response.set_content(body, kJson);
}

}  // namespace

class HttpServer::Gateway {
 public:
  Gateway(const HttpServerOptions& options,
          std::shared_ptr<grpc::Channel> channel)
      : options_(options),
        stub_(inference::GRPCInferenceService::NewStub(std::move(channel))) {
    Configure();
    AddRoutes();
    AddWebRoutes(server_);
  }

  ~Gateway() {
    server_.stop();
    if (thread_.joinable()) thread_.join();
  }

  absl::Status Start() {
    const std::string where =
        absl::StrCat(options_.address, ":", options_.port);
    if (!server_.is_valid()) {
      return absl::InternalError("the HTTP server could not be set up");
    }
    if (options_.port == 0) {
      port_ = server_.bind_to_any_port(options_.address);
    } else if (server_.bind_to_port(options_.address, options_.port)) {
      port_ = options_.port;
    }
    if (port_ <= 0) {
      return absl::UnavailableError(absl::StrCat(
          "cannot listen for HTTP on ", where,
          "; is the port taken? choose another, or 0 for any free one"));
    }
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    // A stop() before the loop runs would be lost.
    while (!server_.is_running()) std::this_thread::yield();
    return absl::OkStatus();
  }

  int port() const { return port_; }

 private:
  using Request = httplib::Request;
  using Response = httplib::Response;

  void Configure() {
    server_.new_task_queue = [threads = options_.threads] {
      return new httplib::ThreadPool(threads);
    };
    // The default, SO_REUSEPORT, would share a taken port.
    server_.set_socket_options([](socket_t socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    });
    server_.set_payload_max_length(options_.max_body_bytes);
    // A connection occupies a thread, so it must not idle for long.
    server_.set_keep_alive_timeout(2);
    server_.set_keep_alive_max_count(100);
    server_.set_read_timeout(5);
    server_.set_write_timeout(5);
    server_.set_tcp_nodelay(true);
    server_.set_error_handler([](const Request& request, Response& response) {
      if (!response.body.empty()) return;
      response.set_content(
          ErrorJson(absl::StrCat("no ", request.method, " ", request.path)),
          kJson);
    });
  }

  // Adds the routes. Each answers by one rpc on the channel.
  void AddRoutes() {
    server_.Get("/v2/health/live", [this](const Request&, Response& response) {
      inference::ServerLiveResponse answer;
      const auto method = &inference::GRPCInferenceService::Stub::ServerLive;
      if (!Call(method, inference::ServerLiveRequest(), &answer, response)) {
        return;
      }
      Reply(response, answer.live() ? 200 : 400,
            FlagJson("live", answer.live()));
    });
    server_.Get("/v2/health/ready", [this](const Request&, Response& response) {
      inference::ServerReadyResponse answer;
      const auto method = &inference::GRPCInferenceService::Stub::ServerReady;
      if (!Call(method, inference::ServerReadyRequest(), &answer, response)) {
        return;
      }
      Reply(response, answer.ready() ? 200 : 400,
            FlagJson("ready", answer.ready()));
    });
    server_.Get("/v2/?", [this](const Request&, Response& response) {
      inference::ServerMetadataResponse answer;
      const auto method =
          &inference::GRPCInferenceService::Stub::ServerMetadata;
      if (Call(method, inference::ServerMetadataRequest(), &answer, response)) {
        Reply(response, 200, ToJson(answer));
      }
    });
    // Without a version in the path the second match is empty, which the
    // protocol takes for the version of the server's choice.
    const std::string model = "/v2/models/([^/]+)(?:/versions/([^/]+))?";
    server_.Get(model, [this](const Request& request, Response& response) {
      DescribeModel(request.matches[1], request.matches[2], response);
    });
    server_.Get(
        model + "/ready", [this](const Request& request, Response& response) {
          TellModelReady(request.matches[1], request.matches[2], response);
        });
  }

  void DescribeModel(const std::string& model, const std::string& version,
                     Response& response) {
    inference::ModelMetadataRequest request;
    request.set_name(model);
    request.set_version(version);
    inference::ModelMetadataResponse answer;
    const auto method = &inference::GRPCInferenceService::Stub::ModelMetadata;
    if (Call(method, request, &answer, response)) {
      Reply(response, 200, ToJson(answer));
    }
  }

  void TellModelReady(const std::string& model, const std::string& version,
                      Response& response) {
    inference::ModelReadyRequest request;
    request.set_name(model);
    request.set_version(version);
    inference::ModelReadyResponse answer;
    const auto method = &inference::GRPCInferenceService::Stub::ModelReady;
    if (Call(method, request, &answer, response)) {
      Reply(response, answer.ready() ? 200 : 400,
            ModelReadyJson(model, answer.ready()));
    }
  }

  // Returns false when the rpc failed; `response` then has the error.
  template <typename Method, typename Question, typename Answer>
  bool Call(Method method, const Question& question, Answer* answer,
            Response& response) {
    grpc::ClientContext context;
    context.set_deadline(
        absl::ToChronoTime(absl::Now() + options_.rpc_timeout));
    const grpc::Status status =
        (stub_.get()->*method)(&context, question, answer);
    if (!status.ok()) {
      Reply(response, HttpStatus(status.error_code()),
            ErrorJson(status.error_message()));
    }
    return status.ok();
  }

  const HttpServerOptions options_;
  const std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
  httplib::Server server_;
  std::thread thread_;
  int port_ = 0;
};

HttpServer::HttpServer(std::unique_ptr<Gateway> gateway)
    : gateway_(std::move(gateway)) {}

HttpServer::~HttpServer() = default;

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(
    const HttpServerOptions& options, std::shared_ptr<grpc::Channel> channel) {
  if (options.port < 0 || options.port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("HTTP port ", options.port, " is not in 0 .. 65535"));
  }
  auto gateway = std::make_unique<Gateway>(options, std::move(channel));
  const absl::Status started = gateway->Start();
  if (!started.ok()) return started;
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(gateway)));
}

int HttpServer::port() const { return gateway_->port(); }

}  // namespace gpupool::server
