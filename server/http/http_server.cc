#include "server/http/http_server.h"

#include <grpcpp/grpcpp.h>
#include <httplib.h>
#include <netinet/tcp.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/http/json_gateway.h"
#include "server/http/request_body.h"
#include "server/http/request_check.h"
#include "server/http/rest/rest_json.h"
#include "server/http/rest_routes.h"
#include "server/http/served_certificate.h"
#include "server/http/web_routes.h"

namespace gpupool::server {
namespace {

constexpr char kJson[] = "application/json";

// Connections that the system keeps until they are accepted; more are dropped,
// and their clients try again after a second.
constexpr int kMostUnaccepted = 512;

void Reply(httplib::Response& response, int status, const std::string& body) {
  response.status = status;
  response.set_content(body, kJson);
}

TrustedHosts HostsOf(const HttpServerOptions& options) {
  return {.loopback_only = IsLoopback(options.address), .names = options.names};
}

RestOptions RestSettings(const HttpServerOptions& options) {
  return {.get_timeout = options.rpc_timeout,
          .most_body_bytes = options.rest_body_bytes,
          .most_calls = options.rest_calls,
          .post_timeout = options.api_timeout,
          .trusted = HostsOf(options)};
}

JsonGatewayOptions GatewayOptions(const HttpServerOptions& options) {
  return {.most_body_bytes = options.max_body_bytes,
          .most_calls = options.api_calls,
          .most_streams = options.api_streams,
          .unary_timeout = options.api_timeout,
          .stream_fails_within = options.stream_fails_within,
          .trusted = HostsOf(options)};
}

#ifndef CPPHTTPLIB_OPENSSL_SUPPORT
#error "cpp-httplib must be built with OpenSSL, as Debian's is"
#endif

// Returns a server that speaks TLS with the certificate; null means plain.
std::unique_ptr<httplib::Server> MakeServer(ServedCertificate* certificate) {
  if (certificate == nullptr) return std::make_unique<httplib::Server>();
  return std::make_unique<httplib::SSLServer>(
      [certificate](SSL_CTX& context) { return certificate->SetUp(context); });
}

// Lets the system notice a client that vanished, in about a minute. Accepted
// connections inherit this from the listening socket.
void SetKeepalive(socket_t socket) {
  const std::pair<std::pair<int, int>, int> settings[] = {
      {{SOL_SOCKET, SO_KEEPALIVE}, 1},
      {{IPPROTO_TCP, TCP_KEEPIDLE}, 30},
      {{IPPROTO_TCP, TCP_KEEPINTVL}, 10},
      {{IPPROTO_TCP, TCP_KEEPCNT}, 3}};
  for (const auto& [name, value] : settings) {
    setsockopt(socket, name.first, name.second, &value, sizeof(value));
  }
}

// Returns what is wrong with a request that no route has answered.
std::string Complaint(const httplib::Request& request, int status) {
  switch (status) {
    case 404:
      return absl::StrCat("no ", request.method, " ", request.path);
    case 414:
      return "the path is too long";
    case 500:
      return "the request was not understood";
    default:
      return "the request is malformed";
  }
}

}  // namespace

class HttpServer::Gateway {
 public:
  Gateway(const HttpServerOptions& options,
          std::unique_ptr<ServedCertificate> certificate,
          std::shared_ptr<grpc::Channel> channel)
      : options_(options),
        rest_(RestSettings(options), channel),
        json_(GatewayOptions(options), std::move(channel)),
        certificate_(std::move(certificate)),
        server_(MakeServer(certificate_.get())) {
    Configure();
    rest_.AddTo(server_.get());
    AddWebRoutes(*server_);
    json_.AddRoutes(server_.get());
    RefuseOtherBodies();
  }

  ~Gateway() {
    // Close the calls before the server: streams end only when their rpc does.
    json_.Close();
    rest_.Close();
    server_->stop();
    if (thread_.joinable()) thread_.join();
  }

  absl::Status Start() {
    const std::string where =
        absl::StrCat(options_.address, ":", options_.port);
    if (!server_->is_valid()) {
      return absl::InternalError("the HTTP server could not be set up");
    }
    if (options_.port == 0) {
      port_ = server_->bind_to_any_port(options_.address);
    } else if (server_->bind_to_port(options_.address, options_.port)) {
      port_ = options_.port;
    }
    if (port_ <= 0) {
      return absl::UnavailableError(absl::StrCat(
          "cannot listen for HTTP on ", where,
          "; is the port taken? choose another, or 0 for any free one"));
    }
    // The library sets a bound of 5.
    ::listen(listening_, kMostUnaccepted);
    thread_ = std::thread([this] { Serve(); });
    // A stop() before the loop runs would be lost.
    while (!server_->is_running()) std::this_thread::yield();
    return absl::OkStatus();
  }

  int port() const { return port_; }

 private:
  using Request = httplib::Request;
  using Response = httplib::Response;

  // Serves until stop(), or until httplib gives up because a connection could
  // not be accepted.
  void Serve() {
    if (server_->listen_after_bind()) return;
    spdlog::error(
        "HTTP has ended, a connection could not be accepted http_port={} "
        "lost=\"health checks, the JSON API and the web page\" "
        "remedy=\"restart the server; until then gRPC and the jobs go on\"",
        port_);
  }

  void Configure() {
    // Calls of the API get threads in addition, so that however many there are,
    // probes find a free one.
    const size_t threads = options_.threads + options_.api_calls +
                           options_.api_streams + options_.rest_calls;
    server_->new_task_queue = [threads] {
      return new httplib::ThreadPool(threads);
    };
    // The default, SO_REUSEPORT, would share a taken port.
    server_->set_socket_options([this](socket_t socket) {
      listening_ = socket;
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
      SetKeepalive(socket);
    });
    // Each route has a bound of its own (ReadBody).
    server_->set_payload_max_length(
        std::max(options_.max_body_bytes, options_.rest_body_bytes));
    server_->set_keep_alive_timeout(2);
    // One request for each connection:
    //   * a connection occupies a thread, also while it is idle
    //   * httplib refuses some requests without reading their bodies, and would
    //     take what a web page put into such a body for the next request, with
    //     headers of the page's choice
    server_->set_keep_alive_max_count(1);
    server_->set_read_timeout(5);
    server_->set_write_timeout(5);
    server_->set_tcp_nodelay(true);
    server_->set_error_handler([](const Request& request, Response& response) {
      if (!response.body.empty()) return;
      response.set_content(ErrorJson(Complaint(request, response.status)),
                           kJson);
    });
  }

  // Reads the body of what no route takes, so that its length is bounded.
  void RefuseOtherBodies() {
    const auto refuse = [this](const Request& request, Response& response,
                               const httplib::ContentReader& reader) {
      const auto body = ReadBody(request, reader, options_.max_body_bytes);
      if (absl::IsResourceExhausted(body.status())) {
        return Reply(response, 413,
                     ErrorJson(std::string(body.status().message())));
      }
      Reply(response, 404, ErrorJson(Complaint(request, 404)));
    };
    const std::string all = "[\\s\\S]*";
    server_->Post(all, refuse).Put(all, refuse);
    server_->Patch(all, refuse).Delete(all, refuse);
    // httplib reads a body of any length for PRI, too, which has no routes.
    server_->set_pre_routing_handler(
        [](const Request& request, Response& response) {
          using Result = httplib::Server::HandlerResponse;
          if (request.method != "PRI") return Result::Unhandled;
          response.status = 400;
          return Result::Handled;
        });
  }

  const HttpServerOptions options_;
  RestRoutes rest_;
  JsonGateway json_;
  const std::unique_ptr<ServedCertificate> certificate_;  // null: plain
  const std::unique_ptr<httplib::Server> server_;
  std::thread thread_;
  socket_t listening_ = -1;  // the library's
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
  std::unique_ptr<ServedCertificate> certificate;
  if (options.tls.on()) {
    auto loaded = ServedCertificate::Load(options.tls);
    if (!loaded.ok()) return loaded.status();
    certificate = *std::move(loaded);
  }
  auto gateway = std::make_unique<Gateway>(options, std::move(certificate),
                                           std::move(channel));
  const absl::Status started = gateway->Start();
  if (!started.ok()) return started;
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(gateway)));
}

int HttpServer::port() const { return gateway_->port(); }

}  // namespace gpupool::server
